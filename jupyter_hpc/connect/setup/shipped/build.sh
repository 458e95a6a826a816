#!/bin/bash
# build.sh WORK PREFIX STYLE PYTHON WHEELS SPEC KERNEL KEY MODULE... -- REQUIREMENT...
#
# Makes an environment in a new folder PREFIX.d/NUMBER; PREFIX is a link to the one in use, which
# switch.sh leads to the new one. So whatever happens here, the one in use stays as it is. Beside
# each folder stands NUMBER.state: "building HOST PID", "built KEY", or "used KEY" once PREFIX has
# led to it.
#
# STYLE is venv, uv, conda or packed; PYTHON a command or "" for the best there is; WHEELS a
# folder, "no-index" for pip's own settings, or "" for the Internet; SPEC a file in WORK with
# requirements or a conda environment, or ""; KERNEL the name under which it is registered; KEY
# what it is made of. Lines that begin with "jupyter-hpc: " are read by connect/setup/building.py;
# the codes of `fail` by connect/setup/failures.py.
work=$1 prefix=$2 style=$3 python=$4 wheels=$5 spec=$6 kernel=$7 key=$8
shift 8
env='' parent=$HOME
say() { printf 'jupyter-hpc: %s\n' "$*"; }
fail() {
    code=$1
    shift
    say "fault $*"
    say "space $(df -Pk "$parent" 2>/dev/null | awk 'END { print $4 }')"
    say "inodes $(df -Pi "$parent" 2>/dev/null | awk 'END { print $4 }')"
    # A quota is in none of the two, and Python's venv does not say why it failed.
    if [ -d "$env" ]; then
        say "room $(LC_ALL=C dd if=/dev/zero of="$env.room" bs=65536 count=64 conv=fsync 2>&1 | grep -i -E 'quota|space')"
    fi
    # Half an environment would only take room, perhaps the last there is.
    [ -z "$env" ] || rm -rf "$env" "$env".*
    rm -f "$work/pid"
    exit "$code"
}
me="$(uname -n) $$"
if ! (set -C; printf '%s\n' "$me" >"$work/pid") 2>/dev/null; then
    read -r host pid <"$work/pid"
    if [ "$host" = "$(uname -n)" ] && [ "$pid" != "$$" ] && kill -0 "$pid" 2>/dev/null; then
        say "fault $host"
        exit 35
    fi
    printf '%s\n' "$me" >"$work/pid" || fail 28 "$work"
fi

while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
    say "step Loading the module $1"
    command -v module >/dev/null 2>&1 || fail 22 "$1 none"
    if ! module load "$1" 2>"$work/module.txt" || grep -q -i -E 'error|unable to locate|unknown' "$work/module.txt"; then
        grep -v '^Shell debugging' "$work/module.txt" | sed 's/^/jupyter-hpc: said /'
        name=${1%%/*}
        { module -t avail "$name" 2>&1; module -t spider "$name" 2>&1; } | grep -i "^ *$name" |
            sed -e 's/^ *//' -e 's/[ (<].*//' | sort -u | head -n 20 | sed 's/^/jupyter-hpc: offer /'
        fail 22 "$1"
    fi
    shift
done
shift

# Where others can put another folder in its place, nothing is built.
mkdir -p "$(dirname "$prefix")" || fail 28 "$(dirname "$prefix")"
parent=$(dirname "$prefix")
[ -z "$(find -L "$parent" -maxdepth 0 -perm -0002 ! -perm -1000 2>/dev/null)" ] || fail 34 "$parent"

# What is there and not ours is never touched.
versions=$prefix.d
if [ -L "$prefix" ]; then
    case $(readlink "$prefix") in "${versions##*/}"/*) ;; *) fail 26 "$prefix" ;; esac
elif [ -e "$prefix" ] && [ ! -e "$prefix/.jupyter-hpc" ]; then
    rmdir "$prefix" 2>/dev/null || fail 26 "$prefix"
fi
if mkdir "$versions" 2>/dev/null; then
    if ! chmod go-w "$versions" || ! printf 'jupyter-hpc\n' >"$versions/.jupyter-hpc"; then
        rm -rf "$versions"
        fail 28 "$versions"
    fi
fi
[ -e "$versions" ] || [ -L "$versions" ] || fail 28 "$versions"
if [ -L "$versions" ] || [ ! -O "$versions" ] || [ ! -e "$versions/.jupyter-hpc" ]; then
    fail 26 "$versions"
fi

# What builds have left that were killed, or whose environment never came into use.
number=0
for each in "$versions"/[0-9]*.state; do
    [ -e "$each" ] || continue
    old=${each%.state}
    read -r state host pid <"$each"
    keep=
    case $state in
    used) keep=yes ;;
    building)
        if [ "$host" = "$(uname -n)" ]; then
            ! kill -0 "$pid" 2>/dev/null || keep=yes
        else
            keep=$(find "$each" -mmin -1440 2>/dev/null)
        fi
        ;;
    esac
    [ "${old##*/}" -le "$number" ] || number=${old##*/}
    if [ -z "$keep" ]; then
        say "step Removing $old, which was never finished or used"
        rm -rf "$old" "$old".*
    fi
done
while :; do
    number=$((number + 1))
    env=$versions/$number
    (set -C; printf 'building %s\n' "$me" >"$env.state") 2>/dev/null && break
    [ -e "$env.state" ] || fail 28 "$versions"
done
mkdir "$env" || fail 28 "$env"

usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null </dev/null; }
find_python() {
    found='' seen=''
    if [ -n "$python" ]; then
        set -- "$python"
    else
        set -- python3 python3.13 python3.12 python3.11 python3.10 python
    fi
    for candidate; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        if usable "$candidate"; then
            found=$(command -v "$candidate")
            return 0
        fi
        [ -n "$seen" ] || seen=$("$candidate" -V 2>&1 </dev/null)
    done
    [ -n "$seen" ] || fail 20 none
    fail 21 "$seen"
}

# pip_install PYTHON ARGUMENT...
pip_install() {
    target=$1
    shift
    case $wheels in
    '') ;;
    no-index) set -- --no-index "$@" ;;
    *) set -- --no-index --find-links "$wheels" "$@" ;;
    esac
    if [ "$style" = uv ]; then
        uv pip install --python "$target" "$@"
    else
        "$target" -m pip install --disable-pip-version-check --no-input --progress-bar off "$@"
    fi
}

case $wheels in '' | no-index | /*) ;; *) wheels=$HOME/${wheels#\~/} ;; esac
case $wheels in '' | no-index) ;; *) [ -d "$wheels" ] || fail 29 "$wheels" ;; esac
case $style in
venv | uv | packed)
    [ "$style" != uv ] || command -v uv >/dev/null 2>&1 || fail 25 uv
    find_python
    if [ "$style" = packed ]; then
        for tool in mksquashfs squashfuse; do
            command -v "$tool" >/dev/null 2>&1 || fail 24 "$tool"
        done
    fi
    say "step Making an environment with $("$found" -V 2>&1 </dev/null)"
    if [ "$style" = uv ]; then
        uv venv --allow-existing --python "$found" "$env" || fail 27 "$found"
    elif ! "$found" -m venv "$env"; then
        virtualenv --no-download -p "$found" "$env" || fail 27 "$found"
    fi
    say "step Installing JupyterLab and jupyter-hpc"
    [ -z "$spec" ] || pip_install "$env/bin/python" -r "$work/$spec" || fail 30 requirements
    pip_install "$env/bin/python" "$@" || fail 30 packages
    ;;
conda)
    conda=
    for candidate in "${CONDA_EXE:-}" mamba conda micromamba; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && conda=$candidate && break
    done
    [ -n "$conda" ] || fail 23 conda
    say "step Making an environment with $("$conda" --version 2>&1 </dev/null | head -n 1)"
    # conda wants to make the folder itself.
    rmdir "$env"
    # `conda env create` knows no -y before 24.3, and asks without it from 26.7 on.
    export CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true
    # What a file lists below `pip:` is installed by conda's own call of pip.
    case $wheels in
    '') ;;
    no-index) export PIP_NO_INDEX=1 ;;
    *) export PIP_NO_INDEX=1 PIP_FIND_LINKS="$wheels" ;;
    esac
    case $conda in *micromamba) sub='' ;; *) sub='env' ;; esac
    if [ -n "$spec" ]; then
        # shellcheck disable=SC2086 # one word or none
        "$conda" $sub create -p "$env" -f "$work/$spec" </dev/null || fail 31 create
    else
        "$conda" create -p "$env" -c conda-forge 'python>=3.10' 'jupyterlab>=4.2' ipykernel pip \
            </dev/null || fail 31 create
    fi
    [ -x "$env/bin/python" ] || fail 20 none
    usable "$env/bin/python" || fail 21 "$("$env/bin/python" -V 2>&1 </dev/null)"
    say "step Installing jupyter-hpc"
    pip_install "$env/bin/python" "$@" || fail 30 packages
    ;;
esac

say "step Looking at what was installed"
"$env/bin/python" -c 'import jupyterlab, jupyter_hpc
print("jupyter-hpc: versions JupyterLab", jupyterlab.__version__, "and jupyter-hpc", jupyter_hpc.__version__)' \
    </dev/null || fail 33 import
if [ "$style" = conda ]; then
    "$conda" env export -p "$env" </dev/null
elif [ "$style" = uv ]; then
    uv pip freeze --python "$env/bin/python"
else
    "$env/bin/python" -m pip freeze --all --disable-pip-version-check
fi >"$env.lock.all" || fail 33 versions
grep -v -E '^(name:|prefix:)|^ *-? *jupyter[-_]hpc( @|==)' "$env.lock.all" >"$env.lock" || fail 28 "$versions"
rm -f "$env.lock.all"
# What Jupyter's other servers offer as a kernel; switch.sh puts it in its place.
"$env/bin/python" -m ipykernel install --prefix "$env.kernel" --name "$kernel" \
    --display-name "Python ($kernel)" >/dev/null || fail 32 "$kernel"
"$env/bin/python" - "$env.kernel/share/jupyter/kernels/$kernel/kernel.json" "$prefix/bin/python" <<'END' || fail 32 "$kernel"
import json, sys
with open(sys.argv[1]) as file:
    spec = json.load(file)
spec["argv"][0] = sys.argv[2]
with open(sys.argv[1], "w") as file:
    json.dump(spec, file, indent=1)
END
if [ "$style" = packed ]; then
    say "step Packing it into one file"
    mksquashfs "$env" "$env.squashfs" -noappend -no-progress >/dev/null || fail 36 mksquashfs
    rm -rf "$env"
    # Programs of the environment begin with the line `#!ENV/bin/python`, wherever it is mounted.
    mkdir -p "$env/bin" || fail 28 "$env"
    { printf 'packed=%q\n' "$env" && cat "$work/packed.sh"; } >"$env/bin/activate" || fail 28 "$env"
    # shellcheck disable=SC2016 # the variable is that of the program
    printf '#!/bin/bash\n. %q/bin/activate && exec "$VIRTUAL_ENV/bin/python" "$@"\n' "$env" \
        >"$env/bin/python" || fail 28 "$env"
    chmod 755 "$env/bin/python"
fi
printf 'built %s\n' "$key" >"$env.state.new" || fail 28 "$versions"
mv -f "$env.state.new" "$env.state" || fail 28 "$versions"
rm -f "$work/pid"
say "done"
