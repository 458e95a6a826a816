#!/bin/bash
# Make a root file system with the Slurm and the OpenSSH of one Debian suite.
# Runs in a mount namespace of its own; what it mounts ends with it.
# $1: the suite, $2: the folder to make it in, $3: the mirror; then the packages.
set -eu
suite=$1 root=$2 mirror=$3
shift 3

# A debootstrap that is older than the suite has no script for it; all of Debian's are the same.
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
debootstrap --variant=minbase "$suite" "$root" "$mirror" "$script"

# Daemons are started by the tests alone.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"

inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}
# A mirror may be a copy of an older day, which is as good here.
inside apt-get update --quiet --quiet --option Acquire::Check-Valid-Until=false
# Some packages have other names, or parts, from one suite to the next.
wanted=()
for package in "$@"; do
  if inside apt-cache show --no-all-versions "$package" >/dev/null 2>&1; then
    wanted+=("$package")
  fi
done
inside apt-get install --yes --no-install-recommends --quiet --quiet "${wanted[@]}"
inside apt-get clean
rm -rf "$root"/var/lib/apt/lists/*
# Where a host keeps the machine's root for the moment of its start, and its database.
mkdir -p "$root/.old" "$root/var/lib/mysql"
