# shellcheck shell=sh
# await_one FOLDER TICKS PID NAME...: waits for the first of the named files and shows
# it. `ls` makes a network file system look again. PID is the detached command that
# writes them, or ""; when it has ended, its last words may still be on their way for
# a moment.
await_one() {
    folder=$1 ticks=$2 writer=$3 tick=0
    shift 3
    while [ "$tick" -lt "$ticks" ]; do
        for name in "$@"; do
            # Its writer may take it back just now: then the next one says why.
            if [ -s "$folder/$name" ] && text=$(cat "$folder/$name" 2>/dev/null); then
                printf 'found=%s\n%s\n' "$name" "$text"
                return 0
            fi
        done
        ls "$folder" >/dev/null 2>&1
        if [ "$tick" -lt 100 ]; then sleep 0.05; else sleep 0.25; fi
        tick=$((tick + 1))
        if [ -n "$writer" ] && ! kill -0 "$writer" 2>/dev/null; then
            [ "$ticks" -lt "$((tick + 60))" ] || ticks=$((tick + 60))
            writer=
        fi
    done
    printf 'found=\n'
}
