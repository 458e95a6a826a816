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
prefix=$(whole "$2")
say home "$(cd && pwd -P)"
say work "$(whole "$1")"
say prefix "$prefix"
current=$(readlink "$prefix") && current=$prefix.d/${current##*/}
for state in "$prefix".d/[0-9]*.state; do
    [ -e "$state" ] || continue
    env=${state%.state}
    read -r word key <"$state"
    if [ "$env" = "$current" ]; then
        say current "$env"
        say made_of "$key"
    elif [ "$word" = built ]; then
        say built "$env"
        say built_of "$key"
    elif [ "$word" = used ]; then
        say old "$env"
    fi
done
if [ -e "$1/pid" ]; then
    read -r host pid <"$1/pid"
    say host "$host"
    if [ "$host" = "$(uname -n)" ]; then
        # The number may be another program's by now.
        if kill -0 "$pid" 2>/dev/null && { [ ! -r "/proc/$pid/cmdline" ] || grep -q -a -F build.sh "/proc/$pid/cmdline"; }; then
            say running yes
        else
            say running no
        fi
    elif [ -n "$(find "$1/build.log" -mmin -10 2>/dev/null)" ]; then
        say running yes
    else
        say running no
    fi
fi
exit 0
