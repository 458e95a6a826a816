#!/bin/bash
# The machine room: holds the network of the switch and the file system of /home.
# $1 is the cluster's folder. Lives until its standard input, the lifeline, ends.
set -eu
cd "$1"
# What is mounted below home/ later, here, appears in the hosts as well.
mount --bind home home
mount --make-shared home
echo ready
exec >/dev/null
while read -r _; do :; done
