#!/bin/sh
# look.sh WORK PREFIX: what of a set-up is there, as `key=value` lines.
umask 077
mkdir -p "$1" && chmod 700 "$1" || exit 73
say() { printf '%s=%s\n' "$1" "$2"; }
say home "$(cd && pwd -P)"
say work "$(cd "$1" && pwd -P)"
say prefix "$(mkdir -p "$(dirname "$2")" && cd "$(dirname "$2")" && pwd -P)/$(basename "$2")"
[ ! -e "$2/.jupyter-hpc" ] || say made_of "$(cat "$2/.jupyter-hpc")"
[ ! -e "$2.squashfs.key" ] || say made_of "$(cat "$2.squashfs.key")"
if [ -e "$1/pid" ]; then
    read -r host pid <"$1/pid"
    say host "$host"
    if [ "$host" = "$(uname -n)" ]; then
        if kill -0 "$pid" 2>/dev/null; then say running yes; else say running no; fi
    elif [ -n "$(find "$1/build.log" -mmin -10 2>/dev/null)" ]; then
        say running yes
    else
        say running no
    fi
fi
exit 0
