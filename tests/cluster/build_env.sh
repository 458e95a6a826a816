#!/bin/bash
# Build the Python environment of the cluster's users, in a mount namespace of its own.
# $1: a Python whose pip is a new one, $2: the folder to build in, $3: the path at which it
# will be used, $4: the folder with the product's source there; then pip's requirements.
set -eu
python=$1 folder=$2 path=$3 source=$4
shift 4

# A /opt that has the path in it. What was there stays: a package index may be.
old=$(mktemp -d)
mount --bind /opt "$old"
mount -t tmpfs -o mode=755 tmpfs /opt
for entry in "$old"/*; do
  [ -d "$entry" ] || continue
  mkdir "/opt/${entry##*/}"
  mount --bind "$entry" "/opt/${entry##*/}"
done
umount "$old"
rmdir "$old"
mkdir -p "$path"
mount --bind "$folder" "$path"

/usr/bin/python3 -m venv "$path"
"$python" -m pip --python "$path/bin/python" install --quiet --disable-pip-version-check "$@"

# The product itself comes from the checkout, so that it is never out of date.
site=$("$path/bin/python" -c 'import site; print(site.getsitepackages()[0])')
echo "$source" >"$site/product.pth"
mkdir -p "$path/share/jupyter/labextensions"
ln -s "$source/jupyter_hpc/labextension" "$path/share/jupyter/labextensions/jupyter-hpc"
config=jupyter_server_config.d/jupyter_hpc.json
ln -s "$source/$config" "$path/etc/jupyter/$config"
cat >"$path/bin/jupyter-hpc" <<END
#!$path/bin/python
import sys
from jupyter_hpc.cli.main import main
sys.exit(main())
END
chmod 755 "$path/bin/jupyter-hpc"
