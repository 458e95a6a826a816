#!/bin/sh
# uses: watch.sh
# watch_file.sh FILE SEEN TICKS
watch "$1" "$2" "$3"
