#!/bin/sh
# Holds the network that joins a lab's hosts: a bridge in a network namespace of its own, with no route
# out. Says "up", waits for a line (the hosts exist), plugs them in, says "ready", and stays until the
# owner lets go of stdin.
#
#   hub.sh LAB_DIRECTORY
set -eu
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
echo up
read -r _
ip -batch "$1/hub.net"
echo ready
exec cat >/dev/null
