#!/bin/sh
# uses: detach.sh
# start_detached.sh LOG COMMAND...
file=$1
shift
detach "$file" "$@"
printf 'pid=%s\n' "$!"
