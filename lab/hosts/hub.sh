#!/bin/sh
# Holds the network that connects a lab's hosts: a bridge in a separate network namespace, without a route
# out. Prints "up", waits for a line (the hosts exist), connects them, prints "ready", and runs until the
# owner closes stdin.
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
