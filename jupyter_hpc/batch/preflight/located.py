"""Whether the Python that a job asks for is there, looked at before the job is queued.

Only what a look at files can tell: a job that waits for hours must not fail on a name
that was mistyped, and a preview must not take long.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from pathlib import Path

from jupyter_hpc.batch.job.environment import FIND_CONDA
from jupyter_hpc.batch.job.model import BatchJob, Environment
from jupyter_hpc.errors import CommandFailed, UsageError
from jupyter_hpc.runner import Runner

#: Prints the names of all conda environments, nothing where they cannot be known; ends
#: with _NO_CONDA where the job would not find conda either.
_CONDA_NAMES = f"""
grep -qs envs_dirs ~/.condarc "${{CONDARC:-/dev/null}}" && exit 0
{FIND_CONDA}
[ -x "$conda" ] || exit 3
root=$(dirname -- "$(dirname -- "$(readlink -f -- "$conda")")")
[ -d "$root/conda-meta" ] || exit 0
echo base
for folder in "$root/envs" ~/.conda/envs "${{CONDA_ENVS_PATH:-/nonexistent}}"; do
    ls -- "$folder" 2> /dev/null
done
[ ! -r ~/.conda/environments.txt ] || sed 's,.*/,,' ~/.conda/environments.txt
true
"""
_NO_CONDA = 3


async def home_folder(runner: Runner) -> str:
    """The user's home where the runner runs."""
    done = await runner.run(["sh", "-c", 'printf %s "$HOME"'])
    if not done.ok or not done.stdout.startswith("/"):
        raise CommandFailed("The home folder on the cluster is not known.", "Set HOME there.")
    return done.stdout


async def located(environment: Environment, runner: Runner, base: str) -> Environment:
    """The same with whole paths; relative ones begin in `base`, where the runner runs.

    Raises UsageError for a virtual environment, conda environment or image that is not there.
    """
    if environment.venv is not None:
        return replace(environment, venv=await _venv(environment.venv, runner, base))
    if environment.container is not None:
        return replace(environment, container=await _image(environment.container, runner, base))
    if environment.conda is not None:
        return replace(environment, conda=await _conda(environment, runner, base))
    return environment


async def _venv(path: str, runner: Runner, base: str) -> str:
    full_path = await _full_path(path, runner, base)
    script = '{ [ -r "$1/bin/activate" ] && [ -x "$1/bin/python" ]; }'
    if not await _holds(runner, full_path, script):
        raise UsageError(
            f"There is no virtual environment in {full_path!r}.",
            "Name a folder of the cluster that holds bin/activate and bin/python.",
        )
    return full_path


async def _image(image: str, runner: Runner, base: str) -> str:
    if re.match(r"[a-z]+://", image):
        return image
    full_path = await _full_path(image, runner, base)
    if not await _holds(runner, full_path, '[ -r "$1" ]'):
        raise UsageError(
            f"There is no image {full_path!r}.", "Name a file of the cluster that you can read."
        )
    return full_path


async def _conda(environment: Environment, runner: Runner, base: str) -> str:
    name = environment.conda or ""
    if "/" in name or name.startswith("~"):
        full_path = await _full_path(name, runner, base)
        if not await _holds(runner, full_path, '[ -d "$1/conda-meta" ]'):
            raise UsageError(
                f"There is no conda environment in {full_path!r}.",
                "Name a folder of the cluster that holds conda-meta, or an environment's name.",
            )
        return full_path
    if environment.setup or environment.modules:
        return name  # they may bring another conda with environments of its own
    done = await runner.run(["sh", "-c", _CONDA_NAMES])
    if done.returncode == _NO_CONDA:
        raise UsageError(
            f"There is no conda for the environment {name!r}: it was not found on the cluster.",
            "Name its module with --module, or put it on the PATH there.",
        )
    names = set(done.stdout.split("\n")) - {""}
    if names and name not in names:
        raise UsageError(
            f"There is no conda environment {name!r}.",
            f"There are: {', '.join(sorted(names))}. A path is possible as well.",
        )
    return name


async def _holds(runner: Runner, full_path: str, script: str) -> bool:
    """Whether a path is as the script says, or of a disk that only the nodes have."""
    disk = "/" + full_path.split("/")[1]
    return (await runner.run(["sh", "-c", f'[ ! -d "$2" ] || {script}', "sh", full_path, disk])).ok


async def _full_path(path: str, runner: Runner, base: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = await home_folder(runner) + path[1:]
    return posixpath.normpath(posixpath.join(base, path))


async def with_requirements(
    job: BatchJob, folder: Path, runner: Runner
) -> tuple[BatchJob, dict[str, bytes]]:
    """The requirements of an environment that is built in the job are frozen with the rest."""
    path = job.environment.build_from
    if path is None:
        return job, {}
    data = _content(folder, path)
    if data is not None:
        environment = replace(job.environment, build_from=f"{job.run_dir}/requirements.txt")
        return replace(job, environment=environment), {"requirements.txt": data}
    # It may be on the cluster, and this is a laptop.
    if not (await runner.run(["test", "-r", path])).ok:
        raise UsageError(f"The requirements {path!r} cannot be read.", "Check the path.")
    return job, {}


def _content(folder: Path, path: str) -> bytes | None:
    try:
        return (folder / Path(path).expanduser()).read_bytes()
    except OSError:
        return None
