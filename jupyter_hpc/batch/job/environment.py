"""The lines of a job that make the right Python available."""

from __future__ import annotations

import re
import shlex

from jupyter_hpc.batch.job.model import BatchJob, Environment
from jupyter_hpc.slurm import jobtext

KNOW_MODULE = """\
# Batch shells do not always know `module`.
if ! command -v module > /dev/null; then
    for file in /etc/profile.d/lmod.sh /etc/profile.d/modules.sh /etc/profile.d/z00_lmod.sh \\
        "${MODULESHOME:-}/init/bash" /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do
        # shellcheck source=/dev/null
        [ -r "$file" ] && . "$file"
    done
    # Elsewhere it is a function that login shells get from a file of another name.
    if ! command -v module > /dev/null && [ -r /etc/profile ]; then
        before=$PATH
        # shellcheck source=/dev/null
        . /etc/profile > /dev/null 2>&1
        PATH=$PATH:$before
    fi
fi
"""
_USES_MODULE = re.compile(r"(^|[;&|(]|\bthen|\belse)\s*(module|ml)\s")

_CHECKED = """\
# What a session ends for ends a job as well: it would run without what it needs.
checked() {
    [ "$1" -eq 0 ] && return
    say "this line of the environment failed with code $1: $2"
    code=$1
    exit "$1"
}
"""

#: Leaves the path of conda in $conda, if it is on the PATH or where it mostly is.
FIND_CONDA = """\
for conda in "$(command -v conda)" "${CONDA_EXE:-}" ~/miniforge3/bin/conda \\
    ~/miniconda3/bin/conda ~/mambaforge/bin/conda ~/anaconda3/bin/conda /opt/conda/bin/conda; do
    [ -x "$conda" ] && break
done
"""

_CONDA = """\
# `conda activate` is a function of interactive shells; a batch shell asks for it first.
{find}\
if ! hook=$("$conda" shell.bash hook); then
    say "conda was not found; load its module or put it on the PATH"
    exit 1
fi
eval "$hook"
conda activate {name} || exit 1
"""

_VENV = """\
# shellcheck source=/dev/null
. {activate} || exit 1
"""

_BUILT = """\
# An environment on the node's own disk starts faster than one on the shared one. Each
# node builds it from wheels that are on the cluster, because nodes have no Internet.
# Nobody else can have made its folder before, nor swap it: mkdir creates it where others
# can replace nothing, or the build fails. Another node may not have the folder of this one.
for place in "${{SLURM_TMPDIR:-}}" "${{TMPDIR:-}}" /tmp; do
    [ -n "$place" ] && {everywhere}python3 "$sidecar" check-folder "$place" && break
done
venv=$place/jupyter-hpc-venv-$job-$RANDOM
# shellcheck disable=SC2016  # each node expands it for itself
build='
    python3 "$3" check-folder "$(dirname -- "$1")" && mkdir -m 700 -- "$1" || exit 1
    if command -v virtualenv > /dev/null; then
        virtualenv --quiet --no-download "$1"
    else
        python3 -m venv "$1"
    fi && "$1/bin/pip" install --quiet --no-index ${{4:+--find-links "$4"}} -r "$2"
'
if ! {everywhere}bash -c "$build" build "$venv" {requirements} "$sidecar"{wheels}; then
    say "the environment could not be built; are all wheels on the cluster?"
    exit 1
fi
# shellcheck source=/dev/null
. "$venv/bin/activate" || exit 1
"""


def environment_text(job: BatchJob) -> str:
    """All lines of the environment, in the order in which they build on each other."""
    environment = job.environment
    parts = [jobtext.behind_prefix(environment.slurm_prefix)] if environment.slurm_prefix else []
    loads = [f"module load {shlex.quote(name)}" for name in environment.modules]
    if uses_module(environment):
        parts.append(KNOW_MODULE)
    if environment.setup or loads:
        parts.append(_CHECKED)
    parts += [f"{line}\nchecked $? {shlex.quote(line)}\n" for line in (*environment.setup, *loads)]
    python = _python(environment, job)
    if python:
        parts.append(python)
    if not parts:
        return ""
    # Site scripts and conda read variables that may not be set.
    return "# ---- Python ----\nset +u\n" + "".join(parts) + "set -u\n"


def uses_module(environment: Environment) -> bool:
    """Whether `module` has to be known; a site that has none is asked for nothing."""
    lines = environment.setup
    return bool(environment.modules) or any(_USES_MODULE.search(line) for line in lines)


def _python(environment: Environment, job: BatchJob) -> str:
    if environment.conda:
        return _CONDA.format(find=FIND_CONDA, name=shlex.quote(environment.conda))
    if environment.venv:
        return _VENV.format(activate=shlex.quote(f"{environment.venv}/bin/activate"))
    if environment.build_from:
        wheels = f" {shlex.quote(environment.wheels)}" if environment.wheels else ""
        everywhere = jobtext.on_every_node() + " " if job.nodes > 1 else ""
        return _BUILT.format(
            wheels=wheels,
            everywhere=everywhere,
            requirements=shlex.quote(environment.build_from),
        )
    return ""


def container_words(job: BatchJob) -> str:
    """The words before `python` that run it inside the image."""
    image = job.environment.container
    if image is None:
        return ""
    gpu = " --nv" if job.gpus else ""
    binds = '--bind "$run" --bind "$work" --bind "$cwd"'
    return f'apptainer exec{gpu} {binds} --pwd "$cwd" {shlex.quote(image)} '
