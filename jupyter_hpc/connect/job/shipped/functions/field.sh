# shellcheck shell=sh
# field NAME FILE: the value of a line `NAME=value` of the file
field() {
    while IFS='=' read -r key value; do
        [ "$key" != "$1" ] || printf '%s\n' "$value"
    done <"$2"
}
