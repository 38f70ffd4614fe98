#!/usr/bin/env bash
# State of a Slurm job in Snakemake's words: success, failed or running. Usage: status.sh JOB[;CLUSTER]
# Of a failed job it says on stderr, which Snakemake shows, what Slurm calls it and how its log ends.
job=${1%%;*}
state=$(squeue --noheader --states=all --jobs="$job" --format=%T 2>/dev/null | head -1)
[ -n "$state" ] || state=$(sacct -X --noheader --parsable2 --jobs="$job" --format=State 2>/dev/null | head -1)
case ${state%% *} in
    COMPLETED) echo success ;;
    BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | TIMEOUT)
        echo failed
        { echo "Slurm job $job: $state"; tail -n 5 ".snakemake/log/slurm-$job.log" 2>/dev/null || true; } >&2 ;; # it has no log if it never started
    *) echo running ;; # an empty answer too: neither command could be asked just now
esac
