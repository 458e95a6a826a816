#!/bin/sh
# remove.sh WORK PREFIX KERNEL: deletes what a set-up has made, and nothing else.
say() { printf '%s=%s\n' "$1" "$2"; }
if [ -e "$1/pid" ]; then
    read -r host pid <"$1/pid"
    if [ "$host" = "$(uname -n)" ] && kill -0 "$pid" 2>/dev/null; then
        kill -- "-$pid" 2>/dev/null || kill "$pid"
        say stopped "$pid"
    fi
fi
if [ -e "$2/.jupyter-hpc" ] || [ -e "$2.squashfs.key" ]; then
    rm -rf "$2" && rm -f "$2.squashfs" "$2.squashfs.key" "$2.squashfs.new" || exit 1
    say removed "$2"
elif [ -e "$2" ]; then
    say foreign "$2"
fi
kernel=${JUPYTER_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/jupyter}/kernels/$3
if [ -e "$kernel/kernel.json" ] && grep -q -F "$2/bin/python" "$kernel/kernel.json"; then
    rm -rf "$kernel" || exit 1
    say removed "$kernel"
fi
rm -rf "$1" || exit 1
