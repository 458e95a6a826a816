#!/bin/sh
# read_from.sh FILE OFFSET: the size of a file, then its bytes from an offset on (-1: its
# last 64 kB); a file that has become shorter is read from its beginning.
size=$(wc -c <"$1" 2>/dev/null | tr -d ' ') || size=0
from=$2
[ "$from" -ge 0 ] || from=$((size > 65536 ? size - 65536 : 0))
[ "$from" -le "$size" ] || from=0
printf '%s\n' "$size"
tail -c "+$((from + 1))" "$1" 2>/dev/null | head -c "$((size - from))"
