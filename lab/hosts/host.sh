#!/bin/sh
# Holds one host of a lab in its own network, mount, UTS and IPC namespaces. Prints "up", waits for a
# line (the network is connected), creates the host's disk, /tmp, /dev/shm and /etc/hosts, prints "ready",
# and runs until the owner closes stdin.
#
#   host.sh LAB_DIRECTORY HOST DISK_BYTES OUTER_TMP [RELATIVE_TARGET SOURCE]...
#
# The pairs are paths under the outer temp directory that stay visible to hosts (the program itself).
# Every mount is first made inside the backing directory of /tmp; /tmp is covered last, because that
# hides the sources, including the other hosts' disks.
set -eu
lab=$1 host=$2 bytes=$3 outer_tmp=$4
shift 4
echo up
read -r _

hostname "$host"
ip -batch "$lab/hosts/$host/net"

tmp=$lab/hosts/$host/tmp
disk=$tmp/${lab##*/}/disk
if [ "$bytes" -gt 0 ]; then
  mount -t tmpfs -o "size=$bytes,mode=0755" "${lab##*/}" "$disk"
else
  mount --bind "$lab/hosts/$host/disk" "$disk"
fi

while [ $# -gt 0 ]; do
  target=$tmp/$1
  if [ -d "$2" ]; then
    mkdir -p "$target"
  else
    mkdir -p "${target%/*}"
    : >"$target"
  fi
  mount --rbind "$2" "$target"
  shift 2
done

for file in hosts resolv.conf; do
  if [ -e "/etc/$file" ]; then
    mount --bind "$lab/etc/$file" "/etc/$file"
  fi
done
if [ -d /dev/shm ]; then
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
fi
mount --rbind "$tmp" /tmp
case $outer_tmp/ in
  /tmp/*) ;;
  *) mount --rbind "$tmp" "$outer_tmp" ;;
esac
cd /
echo ready
exec cat >/dev/null
