#!/bin/sh
# look.sh WORK PREFIX make|look: what of a set-up is there, as `key=value` lines. With `make`
# the folder WORK is made.
umask 077
if [ "$3" = make ]; then
    mkdir -p "$1" && chmod 700 "$1" || exit 73
fi
# whole PATH: from the root on, also of what is not there yet
whole() { case $1 in /*) printf '%s\n' "$1" ;; *) printf '%s/%s\n' "$(cd && pwd -P)" "$1" ;; esac; }
say() { printf '%s=%s\n' "$1" "$2"; }
say home "$(cd && pwd -P)"
say work "$(whole "$1")"
say prefix "$(whole "$2")"
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
