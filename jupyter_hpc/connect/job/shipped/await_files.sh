#!/bin/sh
# uses: await_one.sh
# await_files.sh FOLDER TICKS NAME...
folder=$1 ticks=$2
shift 2
await_one "$folder" "$ticks" "" "$@"
