#!/bin/sh
# uses: field.sh
# find_server.sh FOLDER PREFIX: looks for a server that an earlier connect started in this
# job: in the home folder, or in a folder of this node where the home could not be written.
# Only a real folder of our own counts, and only a server whose processes live; a dead one
# is named. "looked" comes last: without it nobody knows, because this did not run to its end.
for session in "$1" "$2".*; do
    if [ -d "$session" ] && [ ! -L "$session" ] && [ -O "$session" ] \
        && [ -s "$session/address" ]; then
        pid=$(field jupyter_pid "$session/address")
        if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
            printf 'session=%s\n' "$session"
            cat "$session/address"
            printf 'secret=%s\n' "$(cat "$session/secret")"
            printf 'token=%s\n' "$(cat "$session/token")"
            # Only there for a relay with a TCP port: its certificate without lines, not its key.
            [ ! -f "$session/relay.pem" ] || printf 'certificate=%s\n' "$(sed -n \
                '/BEGIN CERTIFICATE/,/END CERTIFICATE/{/-----/d;p;}' "$session/relay.pem" | tr -d '\n')"
            break
        fi
        [ "$session" != "$1" ] || printf 'dead=%s\n' "$(field folder "$session/address")"
    fi
done
printf 'looked=yes\n'
