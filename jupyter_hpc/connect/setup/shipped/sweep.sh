#!/bin/sh
# sweep.sh PREFIX: removes the environments that PREFIX has led to before, unless a process of
# this host has one open. Whoever calls it has made sure that no job does.
current=$(readlink "$1")
for state in "$1".d/[0-9]*.state; do
    [ -e "$state" ] || continue
    env=${state%.state}
    read -r word _ <"$state"
    [ "$word" = used ] || continue
    [ "${current##*/}" != "${env##*/}" ] || continue
    # The name is read from stdin: on the command line, grep would find itself.
    # shellcheck disable=SC2062 # the names of files, not a pattern
    if printf '%s/\n' "$env" | grep -q -s -a -F -f - /proc/[0-9]*/maps /proc/[0-9]*/cmdline; then
        printf 'kept=%s\n' "$env"
    elif rm -rf "$env" "$env".*; then
        printf 'removed=%s\n' "$env"
    else
        printf 'kept=%s\n' "$env"
    fi
done
exit 0
