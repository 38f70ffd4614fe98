#!/usr/bin/env bash
# A Slurm of four nodes on the loopback of one machine, for tests: no systemd, no cgroups, no accounting.
#   slurm.sh up FOLDER      start, wait until all nodes are idle, print the path of slurm.conf
#   slurm.sh down FOLDER    end its jobs and daemons (by the pids in FOLDER only), remove FOLDER
# Needs root and Debian's slurmctld, slurmd, slurm-client and munge. Exit status 3: something of these is missing.
set -euo pipefail
what=${1:?up or down} dir=$(realpath -m "${2:?folder}")
conf=$dir/slurm.conf link=/etc/slurm/slurm.conf nodes=4 cpus=2 memory=4000 port=${SLURM_TEST_PORT:-17817}
export SLURM_CONF=$conf

missing() { echo "slurm.sh: $*" >&2; exit 3; }
daemon_of() { running "$(cat "$(sed -n 's/^SlurmctldPidFile=//p' "$1" 2>/dev/null)" 2>/dev/null)" slurmctld; } # of a slurm.conf
running() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ]; }
until_true() { # seconds, command ...
    local end=$((SECONDS + $1)); shift
    until timeout 10 "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || { echo "slurm.sh: in vain: $*" >&2; exit 1; }; sleep 0.2; done
}
all_idle() { [ "$(sinfo -h -N -o '%N %t' | grep -c ' idle$')" = $nodes ]; }

up() {
    [ "$(id -u)" = 0 ] || missing "must be root"
    local program
    for program in slurmctld slurmd sbatch munged; do
        command -v $program >/dev/null || missing "no $program (apt-get install slurmctld slurmd slurm-client munge)"
    done
    # The srun inside a job of the slurm plugin is not told SLURM_CONF and reads the standard place.
    # One that a killed test left behind, without a daemon, is replaced.
    [ ! -e $link ] || [ -L $link ] && ! daemon_of "$(readlink $link)" || missing "$link belongs to another cluster"
    mkdir -p "$dir/state" "$dir/munge" /etc/slurm
    chmod 711 "$dir" "$dir/munge"
    (umask 077; head -c 128 /dev/urandom >"$dir/munge/key")
    munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munged.pid" \
        --log-file="$dir/munged.log" --seed-file="$dir/munge/seed"
    cat >"$conf" <<END
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=2,sched_min_interval=100000,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
# Four nodes of two CPUs on a host that may have fewer
SlurmdParameters=config_overrides
# Memory is sampled every second; a job above its --mem is killed
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
DefMemPerCPU=500
KillWait=3
# squeue shows ended jobs for as long as this, which the profiles rely on
MinJobAge=300
SlurmdTimeout=20
ReturnToService=2
NodeName=node[1-$nodes] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=$cpus SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=02:00:00 DefaultTime=00:10:00 State=UP
END
    printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$dir/cgroup.conf"
    ln -sfn "$conf" $link
    until_true 20 munge -n --socket="$dir/munge/socket"
    slurmctld
    until_true 20 scontrol ping
    local node
    for node in $(seq $nodes); do slurmd -N "node$node"; done
    export -f all_idle; export nodes
    until_true 60 bash -c all_idle
    echo "$conf"
}

down() {
    [ -d "$dir" ] || return 0
    local jobs file pid
    jobs=$(timeout 10 squeue -h -o %A 2>/dev/null | sort -u) || true
    if [ -n "$jobs" ]; then
        # shellcheck disable=SC2086  # one argument per job
        timeout 10 scancel $jobs || true
        for _ in $(seq 20); do [ -n "$(timeout 5 squeue -h -t R,CG 2>/dev/null)" ] || break; sleep 0.5; done
    fi
    for file in "$dir"/slurmctld.pid "$dir"/slurmd.*.pid "$dir"/munged.pid; do
        pid=$(cat "$file" 2>/dev/null) || continue
        local name; name=$(basename "$file"); name=${name%%.*}
        running "$pid" "$name" || continue
        kill "$pid" || true
        for _ in $(seq 50); do running "$pid" "$name" || break; sleep 0.1; done
        if running "$pid" "$name"; then kill -9 "$pid" || true; fi
    done
    [ "$(readlink $link)" != "$conf" ] || rm -f $link
    rm -rf --one-file-system "$dir"
}

case $what in up | down) $what ;; *) echo "slurm.sh: $what: must be up or down" >&2; exit 2 ;; esac
