#!/bin/sh
# remove.sh WORK PREFIX KERNEL: deletes what set-ups have made, and nothing else.
say() { printf '%s=%s\n' "$1" "$2"; }
if [ -e "$1/pid" ]; then
    read -r host pid <"$1/pid"
    if [ "$host" = "$(uname -n)" ] && kill -0 "$pid" 2>/dev/null && grep -q -s -a -F build.sh "/proc/$pid/cmdline"; then
        kill -- "-$pid" 2>/dev/null || kill "$pid"
        say stopped "$pid"
    fi
fi
ours=
if [ -L "$2" ]; then
    target=$(readlink "$2")
    case $target in "${2##*/}.d"/*) ours=yes ;; esac
elif [ -e "$2/.jupyter-hpc" ]; then
    ours=yes
fi
if [ -n "$ours" ]; then
    if [ -L "$2" ]; then rm -f "$2"; else rm -rf "$2"; fi || exit 1
    say removed "$2"
elif [ -e "$2" ] || [ -L "$2" ]; then
    say foreign "$2"
fi
if [ -e "$2.d/.jupyter-hpc" ] && [ ! -L "$2.d" ] && [ -O "$2.d" ]; then
    rm -rf "$2.d" || exit 1
    [ -n "$ours" ] || say removed "$2.d"
fi
kernel=${JUPYTER_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/jupyter}/kernels/$3
if [ -e "$kernel/kernel.json" ] && grep -q -F "$2/bin/python" "$kernel/kernel.json"; then
    rm -rf "$kernel" || exit 1
    say removed "$kernel"
fi
rm -rf "$1" || exit 1
