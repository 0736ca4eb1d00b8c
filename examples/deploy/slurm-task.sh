#!/usr/bin/env bash
# One task of a job under Slurm: the first PS_COUNT tasks are ps, the others are workers.
set -u
SHOAL=${SHOAL:-node_modules/.bin/shoal}
PORT=${PORT:-2222}
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")

# addresses FIRST COUNT: a JSON list of the addresses of these hosts.
addresses() {
  printf '"%s"\n' "${hosts[@]:$1:$2}" | sed "s/\"\$/:$PORT\"/" | paste -sd, -
}

if [ "$SLURM_PROCID" -lt "$PS_COUNT" ]; then
  type=ps index=$SLURM_PROCID
else
  type=worker index=$((SLURM_PROCID - PS_COUNT))
fi
workers=$((${#hosts[@]} - PS_COUNT))
export TF_CONFIG="{
  \"cluster\": {\"ps\": [$(addresses 0 "$PS_COUNT")], \"worker\": [$(addresses "$PS_COUNT" "$workers")]},
  \"task\": {\"type\": \"$type\", \"index\": $index}
}"

# Node-local disk: nothing has to be shared, except the input files.
while :; do
  $SHOAL task job.ts --cluster_token_file="$HOME/token" --dir="${TMPDIR:-/tmp}/line/$type-$index"
  code=$?
  case $code in 0 | 1 | 2 | 76 | 130) exit $code ;; esac
  sleep 5
done
