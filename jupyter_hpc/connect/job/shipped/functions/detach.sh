# shellcheck shell=sh
# detach LOG COMMAND...: the command lives on when the connection ends: own session,
# no terminal, output to a file, with its exit code as the last line (EXIT_LINE in
# remote.py). `$!` is then its process id.
detach() {
    umask 077
    log=$1
    shift
    : >"$log" || exit 73
    # some sites put Slurm only on the PATH of login shells
    command -v "$1" >/dev/null 2>&1 || set -- bash -lc 'exec "$@"' bash "$@"
    set -- sh -c '"$@"; printf "jupyter-hpc: exit %s\n" "$?"' sh "$@"
    if command -v setsid >/dev/null 2>&1; then set -- setsid "$@"; else set -- nohup "$@"; fi
    "$@" </dev/null >>"$log" 2>&1 &
}
