#!/bin/sh
# build.sh WORK PREFIX STYLE PYTHON WHEELS SPEC KERNEL KEY MODULE... -- REQUIREMENT...
#
# Makes the environment PREFIX: STYLE is venv, uv, conda or packed; PYTHON a command or "" for
# the best there is; WHEELS a folder, "no-index" for pip's own settings, or "" for the Internet;
# SPEC a file in WORK with requirements or a conda environment, or ""; KERNEL the name under which
# it is registered; KEY what it is made of. Lines that begin with "jupyter-hpc: " are read by
# connect/setup/building.py; the codes of `fail` by connect/setup/failures.py.
work=$1 prefix=$2 style=$3 python=$4 wheels=$5 spec=$6 kernel=$7 key=$8
shift 8
say() { printf 'jupyter-hpc: %s\n' "$*"; }
room() {
    say "space $(df -Pk "$1" 2>/dev/null | awk 'END { print $4 }')"
    say "inodes $(df -Pi "$1" 2>/dev/null | awk 'END { print $4 }')"
}
fail() {
    code=$1
    shift
    say "fault $*"
    room "$HOME"
    exit "$code"
}
printf '%s %s\n' "$(uname -n)" "$$" >"$work/pid" || exit 73

while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
    say "step Loading the module $1"
    command -v module >/dev/null 2>&1 || fail 22 "$1 none"
    if ! module load "$1" 2>"$work/module.txt" || grep -q -i -E 'error|unable to locate|unknown' "$work/module.txt"; then
        cat "$work/module.txt"
        name=${1%%/*}
        { module -t avail "$name" 2>&1; module -t spider "$name" 2>&1; } | grep -i "^ *$name" |
            sed -e 's/(.*)//' -e 's/^ *//' | sort -u | head -n 20 | sed 's/^/jupyter-hpc: offer /'
        fail 22 "$1"
    fi
    shift
done
shift

# Where others can put another folder in its place, nothing is built.
parent=$(dirname "$prefix")
mkdir -p "$parent" || fail 28 "$parent"
[ -z "$(find -L "$parent" -maxdepth 0 -perm -0002 ! -perm -1000 2>/dev/null)" ] || fail 34 "$parent"

# What is there and not ours is never touched.
if [ -e "$prefix" ] && [ ! -e "$prefix/.jupyter-hpc" ]; then
    rmdir "$prefix" 2>/dev/null || fail 26 "$prefix"
fi

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

mark() {
    mkdir -p "$prefix" || fail 28 "$prefix"
    if [ -L "$prefix" ] || [ ! -O "$prefix" ]; then fail 26 "$prefix"; fi
    printf 'building\n' >"$prefix/.jupyter-hpc" || fail 28 "$prefix"
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

case $wheels in '' | no-index) ;; *) [ -d "$wheels" ] || fail 29 "$wheels" ;; esac
case $style in
venv | uv | packed)
    find_python
    say "step Making an environment with $("$found" -V 2>&1 </dev/null)"
    if [ "$style" = packed ]; then
        for tool in mksquashfs squashfuse; do
            command -v "$tool" >/dev/null 2>&1 || fail 24 "$tool"
        done
        file=$prefix.squashfs
    fi
    rm -rf "$prefix"
    mark
    if [ "$style" = uv ]; then
        uv venv --allow-existing --python "$found" "$prefix" || fail 27 "$found"
    elif ! "$found" -m venv "$prefix"; then
        virtualenv --no-download -p "$found" "$prefix" || fail 27 "$found"
    fi
    mark
    say "step Installing JupyterLab and jupyter-hpc"
    [ -z "$spec" ] || pip_install "$prefix/bin/python" -r "$work/$spec" || fail 30 requirements
    pip_install "$prefix/bin/python" "$@" || fail 30 packages
    ;;
conda)
    conda=
    for candidate in "${CONDA_EXE:-}" mamba conda micromamba; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && conda=$candidate && break
    done
    [ -n "$conda" ] || fail 23 conda
    say "step Making an environment with $("$conda" --version 2>&1 </dev/null | head -n 1)"
    rm -rf "$prefix"
    mkdir -p "$(dirname "$prefix")" || fail 28 "$prefix"
    case $conda in *micromamba) env='' ;; *) env='env' ;; esac
    if [ -n "$spec" ]; then
        # shellcheck disable=SC2086 # one word or none
        "$conda" $env create -y -p "$prefix" -f "$work/$spec" </dev/null || fail 31 create
    else
        "$conda" create -y -p "$prefix" -c conda-forge 'python>=3.10' 'jupyterlab>=4.2' ipykernel pip \
            </dev/null || fail 31 create
    fi
    mark
    [ -x "$prefix/bin/python" ] || fail 20 none
    usable "$prefix/bin/python" || fail 21 "$("$prefix/bin/python" -V 2>&1 </dev/null)"
    say "step Installing jupyter-hpc"
    pip_install "$prefix/bin/python" "$@" || fail 30 packages
    ;;
esac

say "step Registering the kernel $kernel"
"$prefix/bin/python" -m ipykernel install --user --name "$kernel" \
    --display-name "Python ($kernel)" || fail 32 "$kernel"
say "step Looking at what was installed"
"$prefix/bin/python" -c 'import jupyterlab, jupyter_hpc
print("jupyter-hpc: versions JupyterLab", jupyterlab.__version__, "and jupyter-hpc", jupyter_hpc.__version__)' \
    </dev/null || fail 33 import
if [ "$style" = conda ]; then
    "$conda" env export -p "$prefix" </dev/null >"$work/lock.new"
else
    "$prefix/bin/python" -m pip freeze --all --disable-pip-version-check >"$work/lock.new" ||
        uv pip freeze --python "$prefix/bin/python" >"$work/lock.new"
fi
grep -v -E '^(name:|prefix:)|^ *-? *jupyter[-_]hpc( @|==)' "$work/lock.new" >"$work/lock.txt"
printf '%s\n' "$key" >"$prefix/.jupyter-hpc" || fail 28 "$prefix"
if [ "$style" = packed ]; then
    say "step Packing it into one file"
    mksquashfs "$prefix" "$file.new" -noappend -no-progress -all-root >/dev/null || fail 24 mksquashfs
    mv -f "$file.new" "$file" || fail 28 "$file"
    rm -rf "$prefix"
    mkdir -p "$prefix" || fail 28 "$prefix"
    printf '%s\n' "$key" >"$file.key"
fi
rm -f "$work/pid"
say "done"
