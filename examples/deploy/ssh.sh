#!/usr/bin/env bash
# Starts a task on each host of PS and WORKERS by ssh, restarts those that die, and ends with the workers.
set -u
PS=${PS:-node1:2222,node2:2222}
WORKERS=${WORKERS:-node3:2222,node4:2222}
SSH=${SSH:-ssh}
SHOAL=${SHOAL:-node_modules/.bin/shoal}
PROJECT=${PROJECT:-my-model} # on every host: the job and a file `token` with mode 600

# keep JOB INDEX ADDRESS: runs a task until it ends with a code after which a restart makes no sense.
keep() {
  while :; do
    $SSH "${3%:*}" "cd $PROJECT && $SHOAL task job.ts --job_name=$1 --task_index=$2 \
      --ps_hosts=$PS --worker_hosts=$WORKERS --cluster_token_file=token"
    code=$?
    case $code in 0 | 1 | 2 | 76 | 130) return $code ;; esac
    sleep 5
  done
}

start() {
  local job=$1 index=0 address
  for address in ${2//,/ }; do
    keep "$job" "$index" "$address" &
    started+=($!)
    index=$((index + 1))
  done
}

started=()
failed=0
start ps "$PS"
start worker "$WORKERS"
for task in "${started[@]}"; do wait "$task" || failed=$?; done
exit "$failed"
