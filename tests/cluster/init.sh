#!/bin/bash
# Process 1 of one host, in fresh mount, uts, ipc, pid and network namespaces.
# Builds the host's own view of the file system, says "ready", and then reaps
# orphans until its standard input, the lifeline, ends: with process 1 the
# kernel ends every process of the host.
# From the environment: HOST ROOT FOLDER CHECKOUT PYTHON_ENV GPUS CGROUPS CGROUP_FOLDER
set -eu
hostname "$HOST"

# On another root than the machine's, the machine's files are below /.old until the end.
if [ "$ROOT" != / ]; then
  mount --bind "$ROOT" "$ROOT"
  cd "$ROOT"
  pivot_root . .old
  cd /
  mount --move /.old/proc /proc
  mount --rbind /.old/sys /sys
  FOLDER=/.old$FOLDER CHECKOUT=/.old$CHECKOUT PYTHON_ENV=/.old$PYTHON_ENV
fi
cd "$FOLDER"
own=hosts/$HOST

# The users' Python and the product, wherever the checkout lies: these are bound before
# anything that could hide it, and moved into place as a whole.
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/hpc-env
mount --bind "$PYTHON_ENV" /mnt/hpc-env
mount -o remount,bind,ro /mnt/hpc-env
if [ -d source ]; then
  mkdir /mnt/hpc-src
  mount --bind source /mnt/hpc-src
  mount --bind "$CHECKOUT/jupyter_hpc" /mnt/hpc-src/jupyter_hpc
  mount -o remount,bind,ro /mnt/hpc-src/jupyter_hpc
fi
mount --move /mnt /opt

mount --bind etc /etc
mount --bind "$own/hostname" /etc/hostname
mount --bind "$own/ssh" /etc/ssh
mount --bind "$own/pam_sshd" /etc/pam.d/sshd
mount --bind home /home
mount --bind "$own/log" /var/log
mount --bind "$own/spool" /var/spool
if [ -d "$own/mysql" ]; then mount --bind "$own/mysql" /var/lib/mysql; fi

# A /dev of its own, so that GPUs exist on the hosts that have them only.
mount -t tmpfs -o mode=755,size=1m tmpfs /mnt
for device in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
  # shellcheck disable=SC2086 # two words on purpose
  set -- $device
  mknod -m 666 "/mnt/$1" c 1 "$2"
done
mknod -m 666 /mnt/tty c 5 0
mkdir /mnt/pts /mnt/shm
ln -s pts/ptmx /mnt/ptmx
ln -s /proc/self/fd /mnt/fd
ln -s fd/0 /mnt/stdin
ln -s fd/1 /mnt/stdout
ln -s fd/2 /mnt/stderr
# Distinct minor numbers: Slurm tells GPUs apart by them.
for ((gpu = 0; gpu < GPUS; gpu++)); do mknod -m 666 "/mnt/nvidia$gpu" c 195 "$gpu"; done
# For environments that are one file, where the machine has it.
if [ -e /dev/fuse ]; then
  mknod -m 666 /mnt/fuse c 10 229
fi
mount --move /mnt /dev
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm

# A cluster's hosts have no node.js; where there is one, each JupyterLab asks it for settings,
# which takes half a second.
if [ -e /usr/bin/node ]; then mount --bind /dev/null /usr/bin/node; fi

# What this host sees as the root of a cgroup controller is a folder of its own.
for controller in $CGROUPS; do
  controlled=/sys/fs/cgroup/$controller/$CGROUP_FOLDER/$HOST
  mount --bind "$controlled" "/sys/fs/cgroup/$controller"
done

mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd /run/lock /run/munge /run/mysqld /run/slurm
chown munge:munge /run/munge
if [ -d "$own/mysql" ]; then chown mysql:mysql /run/mysqld; fi
chown slurm:slurm /run/slurm

# No daemon can write to the machine's own files, and /tmp belongs to this host.
mount -o remount,bind,ro /
for point in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs "$point"; done
cd /
if [ "$ROOT" != / ]; then umount --lazy /.old; fi

echo ready
exec >/dev/null 2>&1
while read -r _; do :; done
