#!/bin/bash
# Build the Python environment of the cluster's users, in a mount namespace of its own.
# $1: a Python whose pip is a new one, $2: the root file system of the hosts, $3: the folder to
# build in, $4: the path at which it will be used, $5: the folder with the product's source
# there; then pip's requirements. pip is told of its package index by the environment.
set -eu
python=$1 root=$2 folder=$3 path=$4 source=$5
shift 5
[ "$root" = / ] && root=

# A /opt that has the path in it. What was there stays: a package index may be.
old=$(mktemp -d)
mount --bind /opt "$old"
mount -t tmpfs -o mode=755 tmpfs "$root/opt"
for entry in "$old"/*; do
  [ -d "$entry" ] || continue
  mkdir "$root/opt/${entry##*/}"
  mount --bind "$entry" "$root/opt/${entry##*/}"
done
umount "$old"
rmdir "$old"
mkdir -p "$root$path"
mount --bind "$folder" "$root$path"

if [ -z "$root" ]; then
  /usr/bin/python3 -m venv "$path"
  "$python" -m pip --python "$path/bin/python" install --quiet --disable-pip-version-check "$@"
else
  # Another root's Python runs in there only, with the newest pip that knows it.
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
    if [ -e "$file" ] && [ -e "$root$file" ]; then mount --bind "$file" "$root$file"; fi
  done
  chroot "$root" /usr/bin/python3 -m venv "$path"
  pip() {
    chroot "$root" "$path/bin/python" -m pip install --quiet --disable-pip-version-check \
      --no-cache-dir "$@"
  }
  pip --upgrade pip
  pip "$@"
fi

# The product itself comes from the checkout, so that it is never out of date.
site=$(echo "$folder"/lib/python3.*/site-packages)
echo "$source" >"$site/product.pth"
mkdir -p "$folder/share/jupyter/labextensions"
ln -s "$source/jupyter_hpc/labextension" "$folder/share/jupyter/labextensions/jupyter-hpc"
config=jupyter_server_config.d/jupyter_hpc.json
mkdir -p "$folder/etc/jupyter/jupyter_server_config.d"
ln -s "$source/$config" "$folder/etc/jupyter/$config"
cat >"$folder/bin/jupyter-hpc" <<END_OF_SCRIPT
#!$path/bin/python
import sys
from jupyter_hpc.cli.main import main
sys.exit(main())
END_OF_SCRIPT
chmod 755 "$folder/bin/jupyter-hpc"
