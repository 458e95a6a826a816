#!/bin/sh
# prepare.sh STATE: makes the state folder below the home folder and tells about it.
#
# The token and the cookie secret are made once per cluster and kept: the same
# browser opens the bookmark in the next job without a token. `ln` makes the file
# appear whole and exactly once, also when two laptops connect at the same moment.
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
