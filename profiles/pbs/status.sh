#!/usr/bin/env bash
# State of a PBS job in Snakemake's words: success, failed or running. Usage: status.sh JOB
# -x asks for ended jobs too; the server has to keep them (job_history_enable = True).
answer=$(qstat -x -f "$1" 2>/dev/null)
state=$(sed -n 's/^ *job_state = //p' <<<"$answer")
status=$(sed -n 's/^ *Exit_status = //p' <<<"$answer")
case $state in
    F | X | C) if [ "${status:-1}" = 0 ]; then echo success; else echo failed; fi ;;
    *) echo running ;; # an empty answer too: the server could not be asked just now
esac
