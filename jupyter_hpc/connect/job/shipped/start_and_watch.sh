#!/bin/sh
# uses: detach.sh watch.sh
# start_and_watch.sh LOG TICKS COMMAND...
#
# Starting and the first look share one round trip.
file=$1 ticks=$2
shift 2
detach "$file" "$@"
watch "$file" 0 "$ticks"
