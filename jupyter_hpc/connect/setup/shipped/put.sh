#!/bin/sh
# put.sh FOLDER: lines `name base64` on stdin become 0600 files of the folder, each whole.
umask 077
while read -r name data; do
    printf %s "$data" | base64 -d >"$1/.new" && mv -f "$1/.new" "$1/$name" || exit 73
done
