#!/bin/sh
# Ends a lab: waits until the lab's owner closes the pipe on stdin or dies, kills every process of the lab, and
# removes the lab's directory.
#
#   guard.sh NAME DIRECTORY
#
# A process belongs to the lab if its mount namespace contains a mount from the lab's directory (the
# private /tmp of a host), or if its environment contains the lab's mark (the holder of the network and, if hosts
# are only directories, all their processes). The name contains the owner's pid and start time, so no process of
# another lab can match.
# This must run outside the hosts' mount namespaces: there the directory contains no mounts to descend into.
set -u
name=$1 directory=$2

cat >/dev/null

members() {
  if [ -r /proc/self/environ ]; then
    {
      grep -lsF "/$name/hosts/" /proc/[0-9]*/mountinfo
      grep -alsF "SHOAL_LAB_MARK=/$name/" /proc/[0-9]*/environ
    } | cut -d / -f 3
  else
    ps -axEww -o pid=,command= | grep -F -f "$directory/mark" | awk '{ print $1 }'
  fi
}

# Two empty results in a row are required: a command that is just entering a host becomes a member a moment later.
empty=0
tries=0
while [ $empty -lt 2 ]; do
  pids=$(members)
  if [ -z "$pids" ]; then
    empty=$((empty + 1))
  else
    empty=0
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
  fi
  tries=$((tries + 1))
  if [ $tries -gt 500 ]; then
    echo "processes survived SIGKILL: $pids" >&2
    exit 1
  fi
  sleep 0.02
done

# Another guard may be removing the same directory at the same time.
tries=0
while [ -e "$directory" ] && [ $tries -lt 5 ]; do
  find "$directory" -xdev -delete 2>/dev/null || sleep 0.05
  tries=$((tries + 1))
done
if [ -e "$directory" ]; then
  echo "could not remove $directory" >&2
  exit 1
fi
