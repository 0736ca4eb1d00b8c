#!/bin/sh
# Ends a lab: waits until the lab's owner lets go of it (end of file on stdin, which the owner's death
# brings as well), kills every process that lives in the lab, removes the lab's directory.
#
#   guard.sh NAME DIRECTORY
#
# A process lives in the lab when its mount namespace shows a mount out of the lab's directory (the
# private /tmp of a host), or when its environment carries the lab's mark (what holds the network, and, where
# hosts are directories only, whatever runs on them). The name holds the owner's pid and start time, so no process of another lab can match.
# This must run outside the hosts' mount namespaces: there the directory holds no mounts to wander into.
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

# Two empty looks in a row: a command that was just entering a host is a member only a moment later.
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
    echo "processes that do not die: $pids" >&2
    exit 1
  fi
  sleep 0.02
done

# Another guard may be at the same directory: what counts is that it is gone.
tries=0
while [ -e "$directory" ] && [ $tries -lt 5 ]; do
  find "$directory" -xdev -delete 2>/dev/null || sleep 0.05
  tries=$((tries + 1))
done
if [ -e "$directory" ]; then
  echo "could not remove $directory" >&2
  exit 1
fi
