#!/bin/sh
# Install the Debian packages that the tests use, without starting any service.
# As an ordinary user it only names what is missing; the tests that need it are skipped.
set -eu

packages="
  autossh
  btrfs-progs
  chromium
  debootstrap
  fish
  fonts-dejavu-core
  fuse3
  gcc
  iproute2
  krb5-admin-server
  krb5-kdc
  krb5-user
  libc6-dev
  libkrb5-dev
  libpam0g-dev
  libpam-google-authenticator
  libpam-slurm-adopt
  libssl-dev
  mariadb-server
  munge
  openssh-client
  openssh-server
  procps
  python3-gssapi
  python3-venv
  shellcheck
  slurm-client
  slurm-wlm-basic-plugins
  slurmctld
  slurmd
  slurmdbd
  squashfs-tools
  squashfuse
  tcsh
  tzdata
  util-linux
"

installed() {
    dpkg-query --show --showformat='${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "No Debian packages here: tests that need a missing tool are skipped." >&2
    exit 0
fi

missing=
for package in $packages; do
    installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "Missing Debian packages:$missing" >&2
    echo "Tests that need them are skipped; as root, 'make test' installs them." >&2
    exit 0
fi

# Debian starts a daemon right after installing it, unless this policy says no.
# The tests run their own daemons in namespaces; the machine's stay as they are.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
fi

export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install --yes --no-install-recommends --quiet --quiet "$@" >&2
}
echo "Installing Debian packages:$missing" >&2
# The package lists of a fresh machine are empty or old: refreshed only when needed.
# shellcheck disable=SC2086  # one word per package
install $missing 2>/dev/null || {
    apt-get update --quiet --quiet >&2
    install $missing || for package in $missing; do
        install "$package" || echo "Not available here: $package" >&2
    done
}
