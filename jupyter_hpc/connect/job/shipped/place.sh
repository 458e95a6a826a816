#!/bin/sh
# uses: field.sh
# place.sh FOLDER home|node-local LOCK_SECONDS DEAD: lines `name base64` on stdin become
# 0600 files of the folder, each whole.
#
# In the home folder, one connect at a time: the link `lock` says since when somebody is
# starting the server, and appears with that time in one step; launch.sh removes it. A lock
# that is too old belongs to somebody who died, and of those who see that, one may follow:
# who makes the link that is named after it. DEAD is the dead server that the caller has
# seen (its private folder): where another address stands, somebody has started a server
# since.
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
        # removed at this moment; else there is no room for a link
        if [ -z "$then" ]; then
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
    rm -f "$folder/address" "$folder/failed" "$folder/ended" "$folder/line" "$folder/extension"
fi
while read -r name data; do
    printf %s "$data" | base64 -d >"$folder/.new" && mv -f "$folder/.new" "$folder/$name" || exit 73
done
printf 'folder=%s\n' "$folder"
