# shellcheck shell=sh
# watch FILE SEEN TICKS: waits until the file is longer than what the caller has
# seen, then shows all of it.
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
