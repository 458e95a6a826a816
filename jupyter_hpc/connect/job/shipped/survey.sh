#!/bin/sh
# What a login shell of the login host tells about itself, as `key=value` lines: variables of
# storage and accounts, the module system, programs of the site, environments with JupyterLab.
#
#   survey.sh            all of that
#   survey.sh modules    names of modules that may hold a Jupyter; slow on some sites
# Whether the files $@ are of this user or of root: what another one made would run as this one.
ours() {
    for file; do [ -O "$file" ] || [ "$(stat -L -c %u -- "$file")" = 0 ] || return 1; done
}
say() { printf '%s=%s\n' "$1" "$2"; }
if [ "${1:-}" = modules ]; then
    command -v module >/dev/null 2>&1 || exit 0
    module -t avail 2>&1 | grep -E -i '^(jupyter|anaconda|miniconda|miniforge|mamba|python)' |
        sed -e 's/[ (<].*//' -e 's,/$,,' | head -n 60 | sed 's/^/module=/'
    exit 0
fi
for name in SCRATCH WORK PROJECT FAST STORE; do
    eval "value=\${$name:-}"
    case $value in /*) say variable "$name $value" ;; esac
done
for name in SALLOC_ACCOUNT SBATCH_ACCOUNT SLURM_ACCOUNT; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || say account "$value"
done
if command -v module >/dev/null 2>&1; then
    if [ -n "${LMOD_CMD:-}" ]; then say modules Lmod; else say modules 'Environment Modules'; fi
fi
for name in jupyter conda mamba uv apptainer singularity lfs quota diskusage_report myquota cindata \
    user_info saldo accinfo; do
    path=$(command -v "$name" 2>/dev/null) && say program "$name $path"
done
for lab in "$HOME"/*/bin/jupyter-lab "$HOME"/*/*/bin/jupyter-lab "$HOME"/*/envs/*/bin/jupyter-lab \
    "$HOME"/.conda/envs/*/bin/jupyter-lab "$HOME"/.virtualenvs/*/bin/jupyter-lab \
    "${SCRATCH:-/nonexistent}"/*/bin/jupyter-lab "${SCRATCH:-/nonexistent}"/*/envs/*/bin/jupyter-lab; do
    [ -x "$lab" ] || continue
    folder=${lab%/bin/jupyter-lab}
    ours "$folder" "$folder/bin" || continue
    if [ -d "$folder/conda-meta" ]; then
        say conda "$folder"
    elif [ -r "$folder/bin/activate" ]; then
        say venv "$folder"
    fi
done
exit 0
