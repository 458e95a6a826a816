#!/bin/sh
# Runs inside the job step: sets up the environment, then keeps Jupyter and its
# relay alive in a private folder of this node.
#
#   launch.sh SESSION ROOT TCP COMMAND...
#
# SESSION  folder with environment.sh, relay.py, start.py, cgroup.py, secret, profile.json, nodes;
#          for TCP also relay.pem
# ROOT     the folder that JupyterLab shows ("" for the home folder); may begin with $VARIABLE
# TCP      "tcp" if the relay shall also listen on a port (--via direct), else ""
#
# It tells its story in files of SESSION, each written whole: `line` while an environment
# line runs, `address` when the relay can be reached, `failed` when it gave up, `ended` when
# Jupyter is gone. Where SESSION cannot be written, it says so on stderr.
# Everything before the environment lines is POSIX sh with nothing but coreutils.
umask 077
session=$1
root=$2
tcp=$3

tell() { # tell FILE TEXT: the file appears whole or not at all
    printf '%s\n' "$2" >"$session/.$1.$$" && mv -f "$session/.$1.$$" "$session/$1"
}

told= # once the story has an end, or somebody else ends it
fail() { # fail KIND TEXT
    told=yes
    tell failed "kind=$1
$2"
    rm -f "$session/lock" # the start is over
}

give_up() { # give_up KIND TEXT
    fail "$@"
    exit 1
}

# `module` and friends are bash functions on most sites, so the environment
# lines run in bash where there is one.
if [ -z "${BASH_VERSION:-}" ] && command -v bash >/dev/null 2>&1; then
    exec bash "$0" "$@"
fi
shift 3

# Slurm ends the job: what lies on the node alone is of no use to anybody any more.
no_home=
case $session in /tmp/jupyter-hpc-*) no_home=$session ;; esac
stop_all() {
    trap '' TERM INT HUP
    told=yes
    end_processes
    [ -z "$no_home" ] || rm -rf "$no_home"
    exit 143
}
trap stop_all TERM INT HUP

# Folders go when nobody uses them any more: who still did would make them anew. Jupyter gives
# its kernels 5 s; what hangs is killed before Slurm kills us (KillWait, 30 s by default), or
# the folders would stay. (ending_ticks: for tests)
end_processes() {
    started=$(jobs -p) # Jupyter and the keeper of its relay, once there are any
    ticks=0
    for pid in $started; do
        kill "$pid" 2>/dev/null
    done
    for pid in $started; do
        while [ "$ticks" -lt "${ending_ticks:-100}" ] && kill -0 "$pid" 2>/dev/null; do
            ticks=$((ticks + 1))
            sleep 0.1
        done
        kill -s KILL "$pid" 2>/dev/null
    done
    wait
}

# Without this nobody would ever hear of anything. (UNWRITABLE_LINE in remote.py)
if ! (printf x >"$session/.probe.$$") 2>/dev/null; then
    printf 'jupyter-hpc: unwritable on %s: %s\n' "$(uname -n)" "$session" >&2
    exit 74
fi
rm -f "$session/.probe.$$"

# A folder that nobody can have made before us: mktemp creates it, or fails. A full disk may
# still let us make a folder, so something is written to it.
private=
for base in "${JUPYTER_HPC_NODE_TMP:-/tmp}" /tmp /dev/shm; do
    private=$(mktemp -d "$base/jh-XXXXXXXX" 2>/dev/null) || continue
    { mkdir "$private/run" && cp "$session/secret" "$private/relay.secret" &&
        head -c 65536 /dev/zero >"$private/room" && rm "$private/room"; } 2>/dev/null && break
    rm -rf "$private"
    private=
done
[ -n "$private" ] || give_up folder "text=No folder for sockets could be written in /tmp or /dev/shm of $(uname -n): both are full or closed."
warning=
if [ "$base" = /dev/shm ]; then
    warning="/tmp of $(uname -n) cannot be written (full?); the session goes on in /dev/shm."
    mkdir "$private/tmp" && export TMPDIR="$private/tmp"
fi

line_number= # of the environment line that runs
line_output() { # the end of what it has printed
    tail -n 20 "$private/line.log" 2>/dev/null | sed 's/^/output=/'
}
on_exit() {
    code=$?
    if [ -n "$line_number" ]; then
        [ -n "$told" ] || fail exit "line=$line_number
command=$line_text
$(line_output)"
    elif [ -z "$told" ]; then
        fail died "code=$code"
    fi
    rm -rf "$private"
}
trap on_exit EXIT

# Where login shells learn about modules. It may reset PATH; what we had stays first.
if [ -n "${BASH_VERSION:-}" ] && [ -r /etc/profile ]; then
    path_before=$PATH
    # shellcheck source=/dev/null
    . /etc/profile >/dev/null 2>&1
    PATH=$path_before:$PATH
fi

see_the_whole_job() {
    # This step is one task on one node. What Jupyter starts shall find what the shell of
    # salloc finds: `srun` there reaches every node of the job, and no program takes itself
    # for one of the tasks of an srun (Lightning does by SLURM_NTASKS, MPI by the step).
    export SLURM_JOB_GPUS="${SLURM_JOB_GPUS:-${SLURM_STEP_GPUS:-}}"
    [ -n "$SLURM_JOB_GPUS" ] || unset SLURM_JOB_GPUS
    for name in $(env | sed -n 's/^\(SLURM_STEP[A-Z_]*\)=.*/\1/p') SLURM_NTASKS SLURM_NPROCS \
        SLURM_NTASKS_PER_NODE SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_GTIDS SLURM_TASK_PID \
        SLURM_JOB_NAME SLURM_DISTRIBUTION SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GRES \
        SLURM_SRUN_COMM_HOST SLURM_SRUN_COMM_PORT SLURM_LAUNCH_NODE_IPADDR; do
        unset "$name"
    done
    [ -r "$session/nodes" ] || return 0
    node_count=$(wc -l <"$session/nodes" | tr -d ' ')
    SLURM_JOB_NODELIST=$(cut -d ' ' -f 1 "$session/nodes" | paste -s -d , -)
    SLURM_TASKS_PER_NODE=1
    [ "$node_count" -eq 1 ] || SLURM_TASKS_PER_NODE="1(x$node_count)"
    export SLURM_JOB_NODELIST SLURM_TASKS_PER_NODE SLURM_NODELIST="$SLURM_JOB_NODELIST" \
        SLURM_NNODES="$node_count" SLURM_JOB_NUM_NODES="$node_count"
    # A notebook's own srun must not wait for another one. Where the nodes have different
    # numbers of GPUs it has to: 22.05 finds "Insufficient GRES" for steps that share them.
    [ "$(cut -d ' ' -f 2 "$session/nodes" | sort -u | wc -l)" -ne 1 ] || export SLURM_OVERLAP=1
}

environment_run() { # environment_run NUMBER TEXT: one environment line, in this shell
    line_number=$1
    line_text=$2
    set --
    # `exec` ends this shell without a word: then this file is what is known
    tell line "line=$line_number
command=$line_text"
    path_of_line=$PATH
    environment_eval >"$private/line.log" 2>&1
    line_code=$?
    # Without them nothing below works, and no terminal of the session either.
    if ! command -v cat >/dev/null 2>&1 || ! command -v rm >/dev/null 2>&1; then
        PATH=$path_of_line
        give_up path "line=$line_number
command=$line_text"
    fi
    cat "$private/line.log" >>"$session/jupyter.log"
    [ "$line_code" -eq 0 ] || give_up environment "line=$line_number
code=$line_code
command=$line_text
$(line_output)"
    line_number=
}
environment_eval() { # a function of its own: `return` in a line ends only this
    # eval, because a line is shell code by its nature (`module load x`)
    eval "$line_text"
}

# The environment lines may take minutes: whoever connects meanwhile shall go on waiting.
[ ! -L "$session/lock" ] || { ln -s "$(($(date +%s) + 600))" "$session/lock.$$" &&
    mv -f "$session/lock.$$" "$session/lock"; }
# shellcheck source=/dev/null
. "$session/environment.sh"
rm -f "$session/line"
set +eu # options and traps of a line are not meant for what follows
trap stop_all TERM INT HUP
trap on_exit EXIT

jupyter=$1
case ${jupyter##*/} in
    jupyter) # `jupyter lab` only looks up and executes `jupyter-lab`
        if [ $# -gt 1 ] && command -v "$jupyter-$2" >/dev/null 2>&1; then
            jupyter=$jupyter-$2
            shift
        fi
        ;;
esac
program=$(command -v "$jupyter") || give_up jupyter "command=$jupyter
path=$PATH"
shift

# The interpreter behind the program lets start.py skip a second of imports;
# a wrapper that is not a Python script is executed as it is.
interpreter=
first_line=$(head -n 1 "$program" 2>/dev/null | tr -d '\000')
case $first_line in
    '#!'*python*)
        interpreter=${first_line#\#!}
        interpreter=${interpreter# }
        case $interpreter in *' '*) interpreter= ;; esac
        ;;
esac
python=
ask_version='import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 9))'
for candidate in "$interpreter" python3 python /usr/libexec/platform-python; do
    [ -n "$candidate" ] || continue
    if version=$("$candidate" -c "$ask_version" 2>/dev/null); then
        python=$(command -v "$candidate")
        break
    fi
done
[ -n "$python" ] || give_up python "path=$PATH"

see_the_whole_job
export JUPYTER_HPC_PROFILE="$session/profile.json"
export JUPYTER_RUNTIME_DIR="$private/run"      # kernels' ipc sockets: private and node-local
export JUPYTER_TOKEN_FILE="$session/token"
unset JUPYTER_TOKEN
# Jupyter does not start without a folder for its settings and its mark there, which a first use
# makes. Where it cannot, both are here; settings that the user has are read all the same.
settings=${JUPYTER_CONFIG_DIR:-$HOME/.jupyter}
if [ -n "$no_home" ] && [ ! -e "$settings/migrated" ]; then
    mkdir "$private/config" && : >"$private/config/migrated"
    export JUPYTER_CONFIG_DIR="$private/config"
    export JUPYTER_CONFIG_PATH="$settings${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
fi
# IPython would make itself a folder in /tmp at each start, and leave it there.
ipython=${IPYTHONDIR:-$HOME/.ipython}
[ -e "$ipython" ] || ipython=${ipython%/*}
if [ -n "$no_home" ] && [ ! -w "$ipython" ]; then
    mkdir "$private/ipython" && export IPYTHONDIR="$private/ipython"
fi
# `$SCRATCH/work` begins with a variable of this place; where it is not set, home has to do.
case $root in
    \~ | \~/*) root=$HOME${root#\~} ;;
    '$'*)
        name=${root%%/*}
        rest=${root#"$name"}
        name=${name#'$'} name=${name#'{'} name=${name%'}'}
        case $name in
            '' | *[!A-Za-z0-9_]*) ;;
            *) eval "root=\${$name:-}" && root=${root:+$root$rest} ;;
        esac
        ;;
esac
[ -n "$root" ] || root=$HOME
cd "$root" || give_up root "root=$root"

# A day of ping time-out: the relay keeps the connection through any cut, so a
# silent browser is not a dead one.
set -- "$program" "$@" --no-browser \
    --ServerApp.sock="$private/jupyter.sock" --ServerApp.sock_mode=0600 \
    --ServerApp.root_dir="$root" --ServerApp.cookie_secret_file="$session/cookie_secret" \
    --KernelManager.transport=ipc \
    --ServerApp.tornado_settings='{"ws_ping_interval": 30000, "ws_ping_timeout": 86400000}'
# Where the user is root (containers), Jupyter wants to be told that this is meant.
[ "$(id -u)" -ne 0 ] || set -- "$@" --allow-root
if [ -n "$interpreter" ] && [ "$python" = "$(command -v "$interpreter")" ]; then
    "$python" "$session/start.py" "$session" "$@" </dev/null >>"$session/jupyter.log" 2>&1 &
else
    "$@" </dev/null >>"$session/jupyter.log" 2>&1 &
fi
jupyter_pid=$!

keep_relay() { # a relay that dies is started again as long as Jupyter lives
    trap 'kill "$!" 2>/dev/null; exit 0' TERM # before there is a relay, this is Jupyter
    while kill -0 "$jupyter_pid" 2>/dev/null; do
        "$python" "$session/relay.py" --serve "$private" --jupyter "$private/jupyter.sock" \
            ${tcp:+--tcp "$session/relay.pem"} </dev/null >>"$session/relay.log" 2>&1 &
        wait "$!"
        sleep 0.2
    done
}
keep_relay &
keeper_pid=$!
# A minute at least: Python may lie on a slow file system. (relay_ticks: for tests)
ticks=0
until [ -S "$private/relay.sock" ] || ! kill -0 "$jupyter_pid" 2>/dev/null; do
    if [ "$ticks" -ge "${relay_ticks:-3000}" ]; then
        fail relay "python=$python
$(tail -n 20 "$session/relay.log" 2>/dev/null | sed 's/^/output=/')"
        end_processes
        exit 1
    fi
    ticks=$((ticks + 1))
    sleep 0.02
done
rm -f "$session/failed" "$session/ended"
told=yes
# A Jupyter that is gone already has no address: how it ended is told below.
! kill -0 "$jupyter_pid" 2>/dev/null || tell address "node=$(uname -n)
warning=$warning
folder=$private
port=$(cat "$private/relay.port" 2>/dev/null)
python=$python
version=$version
jupyter_pid=$jupyter_pid
keeper_pid=$keeper_pid"
rm -f "$session/lock"
wait "$jupyter_pid"
code=$?
kill "$keeper_pid" 2>/dev/null
case $(cat "$session/address" 2>/dev/null) in *"folder=$private"*) rm -f "$session/address" ;; esac
# Killed: by the system, for want of memory? It lets the job go on.
killed=
[ "$code" -ne 137 ] || killed=$("$python" "$session/cgroup.py" </dev/null 2>/dev/null)
# shellcheck disable=SC3045 # -u is bash's; other shells have no limit to tell
tell ended "code=$code
$killed
processes=$(ulimit -u 2>/dev/null)
$(tail -n 20 "$session/jupyter.log" | sed 's/^/output=/')"
exit "$code"
