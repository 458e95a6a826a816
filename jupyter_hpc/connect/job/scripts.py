"""The scripts that we run on the cluster, as constants.

POSIX sh with nothing but coreutils (setsid and find are used where there are any).
Everything that varies reaches a script as a positional argument or on stdin, so no
value of a profile or of the cluster is ever parsed by a shell. The comment on the first
line is a script's name in the log.
"""

from __future__ import annotations

# The token and the cookie secret are made once per cluster and kept: the same
# browser opens the bookmark in the next job without a token. `ln` makes the file
# appear whole and exactly once, also when two laptops connect at the same moment.
PREPARE = r"""# prepare the account
umask 077
state=$HOME/$1
make() {
    [ -s "$state/$1" ] && return 0
    new=$state/.$1.$$
    od -An -v -tx1 -N32 /dev/urandom 2>/dev/null | tr -d ' \n' >"$new" 2>/dev/null || return 1
    [ -s "$new" ] && ln "$new" "$state/$1" 2>/dev/null
    rm -f "$new"
    [ -s "$state/$1" ]
}
writable=no
if mkdir -p "$state/jobs" 2>/dev/null && chmod 700 "$state" 2>/dev/null \
    && make token && make cookie_secret; then
    printf 'probe' >"$state/.probe.$$" 2>/dev/null && [ -s "$state/.probe.$$" ] && writable=yes
fi
rm -f "$state/.probe.$$" 2>/dev/null
# What jobs of long ago have left; nothing here is needed once its job is over.
find "$state/jobs" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + 2>/dev/null
printf 'home=%s\nstate=%s\nuid=%s\nuser=%s\nhost=%s\nwritable=%s\n' \
    "$HOME" "$state" "$(id -u)" "$(id -un)" "$(uname -n)" "$writable"
[ -r "$state/token" ] && printf 'token=%s\n' "$(cat "$state/token")"
[ -r "$state/cookie_secret" ] && printf 'cookie_secret=%s\n' "$(cat "$state/cookie_secret")"
exit 0
"""

# field NAME FILE: the value of a line `NAME=value` of the file
FIELD = r"""
field() {
    while IFS='=' read -r key value; do
        [ "$key" != "$1" ] || printf '%s\n' "$value"
    done <"$2"
}
"""

# Lines `name base64` on stdin become 0600 files of the folder, each whole. In the home
# folder, one connect at a time: the link `lock` says since when somebody is starting the
# server, and appears with that time in one step; launch.sh removes it. A lock that is too
# old belongs to somebody who died, and of those who see that, one may follow: who makes
# the link that is named after it. `$4` is the dead server that the caller has seen (its
# private folder): where another address stands, somebody has started a server since.
PLACE = (
    "# place the files of the server\n"
    + FIELD
    + r"""
umask 077
folder=$1
if [ "$2" = node-local ]; then
    folder=$(mktemp -d "$1.XXXXXX") || exit 73
else
    mkdir -p "$folder" && chmod 700 "$folder" || exit 73
    lock=$folder/lock
    busy() { printf 'busy=yes\n'; exit 0; }
    now=$(date +%s)
    tries=0
    until ln -s "$now" "$lock" 2>/dev/null; do
        then=$(readlink "$lock")
        if [ -z "$then" ]; then # removed at this moment; else there is no room for a link
            tries=$((tries + 1))
            [ "$tries" -lt 5 ] || { ln -s "$now" "$lock" && break; } || exit 73
            continue
        fi
        [ "$((now - then))" -ge "$3" ] || busy
        ln -s "$now" "$folder/.after.$then" 2>/dev/null || busy
        ln -s "$now" "$lock.$$" && mv -f "$lock.$$" "$lock" || exit 73
        break
    done
    started=$(field folder "$folder/address" 2>/dev/null)
    if [ -n "$started" ] && [ "$started" != "$4" ]; then
        rm -f "$lock"
        busy
    fi
    rm -f "$folder/address" "$folder/failed" "$folder/ended" "$folder/extension"
fi
while read -r name data; do
    printf %s "$data" | base64 -d >"$folder/.new" && mv -f "$folder/.new" "$folder/$name" || exit 73
done
printf 'folder=%s\n' "$folder"
"""
)

EXITED = "jupyter-hpc: exit "  # the last line of a detached command's log

#: A launch that has not come to its environment lines after this long has died.
LOCK_SECONDS = 60

# detach LOG COMMAND...: the command lives on when the connection ends: own session,
# no terminal, output to a file, with its exit code as the last line.
DETACH = r"""
umask 077
detach() {
    log=$1
    shift
    : >"$log" || exit 73
    # some sites put Slurm only on the PATH of login shells
    command -v "$1" >/dev/null 2>&1 || set -- bash -lc 'exec "$@"' bash "$@"
    set -- sh -c '"$@"; printf "jupyter-hpc: exit %s\n" "$?"' sh "$@"
    if command -v setsid >/dev/null 2>&1; then set -- setsid "$@"; else set -- nohup "$@"; fi
    "$@" </dev/null >>"$log" 2>&1 &
    detached=$!
}
"""

# watch FILE SEEN TICKS: waits until the file is longer than what the caller has
# seen, then shows all of it.
WATCH = r"""
watch() {
    tick=0
    while [ "$tick" -lt "$3" ]; do
        size=$(wc -c <"$1" 2>/dev/null) || size=0
        [ "$size" -gt "$2" ] && break
        if [ "$tick" -lt 50 ]; then sleep 0.1; else sleep 0.5; fi
        tick=$((tick + 1))
    done
    cat "$1" 2>/dev/null
}
"""

# await_one FOLDER TICKS NAME...: waits for the first of the named files and shows
# it. `ls` makes a network file system look again. When a command that was detached
# has ended, its last words may still be on their way for a moment.
AWAIT = r"""
await_one() {
    folder=$1 ticks=$2 tick=0
    shift 2
    while [ "$tick" -lt "$ticks" ]; do
        for name in "$@"; do
            if [ -s "$folder/$name" ]; then
                printf 'found=%s\n' "$name"
                cat "$folder/$name"
                return 0
            fi
        done
        ls "$folder" >/dev/null 2>&1
        if [ "$tick" -lt 100 ]; then sleep 0.05; else sleep 0.25; fi
        tick=$((tick + 1))
        if [ -n "${detached:-}" ] && ! kill -0 "$detached" 2>/dev/null; then
            [ "$ticks" -lt "$((tick + 60))" ] || ticks=$((tick + 60))
            detached=
        fi
    done
    printf 'found=\n'
}
"""

WATCH_FILE = "# watch a file\n" + WATCH + 'watch "$1" "$2" "$3"\n'

# Starting and the first look share one round trip.
START_AND_WATCH = (
    "# start and watch\n"
    + DETACH
    + WATCH
    + r"""
file=$1 ticks=$2
shift 2
detach "$file" "$@"
watch "$file" 0 "$ticks"
"""
)

# A step goes on without its srun, whose listening ports are open to the whole network:
# once the step runs, srun and the shell around it are ended.
START_AND_AWAIT = (
    "# start and await\n"
    + DETACH
    + AWAIT
    + r"""
session=$1 ticks=$2
shift 2
detach "$session/srun.log" "$@"
srun=$detached
await_one "$session" "$ticks" address failed
if [ -s "$session/address" ]; then
    kill -s KILL -- "-$srun" 2>/dev/null
elif ! kill -0 "$srun" 2>/dev/null; then
    rm -f "$session/lock" # nobody starts anything any more
fi
"""
)

START = (
    "# start\n"
    + DETACH
    + r"""
file=$1
shift
detach "$file" "$@"
printf 'pid=%s\n' "$detached"
"""
)

LET_GO = '# let go\nkill -s KILL -- "-$1" 2>/dev/null\n'

AWAIT_FILES = "# await files\n" + AWAIT + 'await_one "$@"\n'

# The log of salloc becomes the job's own, under a name that every connect knows.
# salloc has it open and goes on writing to it.
KEEP_LOG = r"""# keep the log of salloc
umask 077
mkdir -p "$2" && mv -f "$1" "$2/salloc.log"
"""

# Looks for a server that an earlier connect started in this job: in the home folder,
# or in a folder of this node where the home could not be written. Only a real folder
# of our own counts, and only a server whose processes live; a dead one is named.
FIND_SERVER = (
    "# find the server\n"
    + FIELD
    + r"""
for session in "$1" "$2".*; do
    if [ -d "$session" ] && [ ! -L "$session" ] && [ -O "$session" ] \
        && [ -s "$session/address" ]; then
        pid=$(field jupyter_pid "$session/address")
        if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
            printf 'session=%s\n' "$session"
            cat "$session/address"
            printf 'secret=%s\n' "$(cat "$session/secret")"
            printf 'token=%s\n' "$(cat "$session/token")"
            exit 0
        fi
        [ "$session" != "$1" ] || printf 'dead=%s\n' "$(field folder "$session/address")"
    fi
done
exit 0
"""
)


# The size of a file, then its bytes from an offset on; a file that has become shorter
# is read from its beginning.
READ_FROM = r"""# read a file from an offset
size=$(wc -c <"$1" 2>/dev/null | tr -d ' ') || size=0
from=$2
[ "$from" -ge 0 ] || from=$((size > 65536 ? size - 65536 : 0))
[ "$from" -le "$size" ] || from=0
printf '%s\n' "$size"
tail -c "+$((from + 1))" "$1" 2>/dev/null | head -c "$((size - from))"
"""
