# shellcheck shell=sh
# Of an environment that is one file: mounts it for this job and enters it. To be sourced, with
# the file in `packed`, and beside it the folder of the same name where this script lies.
#
# Each job has a mount of its own, for it ends with the job's processes. What earlier jobs have
# left mounted on this node is dead, and taken away.
jupyter_hpc_base=${TMPDIR:-/tmp}/jupyter-hpc-env-$(id -u)
# shellcheck disable=SC2154 # set by the line before
jupyter_hpc_mount=$jupyter_hpc_base-${SLURM_JOB_ID:-0}-$(cksum <"$packed.state" | cut -d ' ' -f 1)
if [ ! -x "$jupyter_hpc_mount/bin/python" ]; then
    for jupyter_hpc_old in "$jupyter_hpc_base"-*; do
        [ -d "$jupyter_hpc_old/bin" ] || fusermount -u "$jupyter_hpc_old" 2>/dev/null
        [ -d "$jupyter_hpc_old/bin" ] || rmdir "$jupyter_hpc_old" 2>/dev/null
    done
    mkdir -m 700 "$jupyter_hpc_mount" 2>/dev/null
    # Somebody else may have made it, to give us programs of their own.
    if [ -L "$jupyter_hpc_mount" ] || [ ! -O "$jupyter_hpc_mount" ]; then
        echo "jupyter-hpc: $jupyter_hpc_mount is not yours; the environment is not mounted there" >&2
        return 1
    fi
    # Another process of this job may do the same just now.
    squashfuse "$packed.squashfs" "$jupyter_hpc_mount" || [ -x "$jupyter_hpc_mount/bin/python" ] || return 1
fi
export VIRTUAL_ENV="$jupyter_hpc_mount" PATH="$jupyter_hpc_mount/bin:$packed/bin:$PATH"
