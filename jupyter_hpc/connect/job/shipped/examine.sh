#!/bin/sh
# examine.sh [quota]: what a host of the cluster tells of itself, as `key=value` lines: its clock,
# who one is there, whether the home folder and /tmp take a file, and how much room they have.
#
# With `quota` also what the quota programs say of the home folder. Nothing is left behind.
umask 077
say() { printf '%s=%s\n' "$1" "$2"; }
probe=
trap 'rm -f "$probe"' EXIT
trap 'exit 143' TERM INT HUP
# A full disk may still let a file be made, so something is written to it.
# write NAME FOLDER
write() {
    probe=$(mktemp "$2/.jupyter-hpc-XXXXXXXX" 2>&1) || {
        say "$1_refused" "$probe"
        probe=
        return
    }
    if said=$({ head -c 65536 /dev/zero >"$probe"; } 2>&1); then
        say "$1_writable" yes
    else
        say "$1_refused" "$said"
    fi
    rm -f "$probe"
    probe=
}
# room NAME FOLDER
room() {
    df -P -k "$2" 2>/dev/null | tail -n 1 | {
        read -r source _ _ left _
        say "$1_source" "$source"
        say "$1_left" "$left"
    }
}
say time "$(date +%s)"
say host "$(uname -n)"
say uid "$(id -u)"
say user "$(id -un)"
say home "$HOME"
write home "$HOME"
room home "$HOME"
write tmp /tmp
room tmp /tmp
[ "${1:-}" = quota ] || exit 0
limit=
command -v timeout >/dev/null 2>&1 && limit='timeout 8'
if command -v lfs >/dev/null 2>&1; then
    $limit lfs quota -q -u "$(id -un)" "$HOME" 2>/dev/null | head -n 20 | sed 's/^/lfs=/'
fi
if command -v quota >/dev/null 2>&1; then
    $limit quota -w 2>/dev/null | head -n 100 | sed 's/^/quota=/'
fi
exit 0
