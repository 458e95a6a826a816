"""Which inputs go to scratch: files as they are, folders as one tar each.

Looking is one thing and packing another: a preview looks, only a submit packs.
"""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_hpc.batch.job.model import Input
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner

#: Making the tar of a large folder takes a while.
_TAR_SECONDS = 3600.0

#: Prints "file SIZE" or "folder NEWEST COUNT SIZE" for one path.
_LOOK = r"""
if [ -f "$1" ]; then
    printf 'file\n'
elif [ -d "$1" ]; then
    cd -- "$1" && printf 'folder ' && find . ! -type d -printf '%T@ %s %p %l\n' | sort | cksum
else
    exit 1
fi
"""


@dataclass(frozen=True)
class Packing:
    """A folder on the cluster and the tar that it becomes."""

    folder: str
    archive: str


async def plan_inputs(
    runner: Runner, paths: Sequence[str], work_dir: str, archive_dir: str
) -> tuple[tuple[Input, ...], tuple[Packing, ...]]:
    """Look at each path where the runner runs: the inputs, and what is to be packed for them.

    A tar is named after the state of its folder, so that an unchanged folder is packed
    once for many jobs.
    """
    inputs: list[Input] = []
    packings: list[Packing] = []
    for path in paths:
        found, packing = await _input(runner, path, work_dir, archive_dir)
        inputs.append(found)
        packings += [packing] if packing else []
    return tuple(inputs), tuple(packings)


async def pack(runner: Runner, packings: Iterable[Packing]) -> None:
    """Make the tars that are not there yet, each whole or not at all."""
    script = (
        # Several submits may pack it at once, on several login hosts.
        '[ -f "$2" ] || { umask 077; mkdir -p -- "$(dirname -- "$2")" && '
        'draft=$(mktemp "$2.XXXXXX") || exit 1; '
        'tar -cf "$draft" -C "$1" . && mv -- "$draft" "$2" || { rm -f -- "$draft"; exit 1; }; }'
    )
    for packing in packings:
        argv = ["sh", "-c", script, "sh", packing.folder, packing.archive]
        done = await runner.run(argv, timeout=_TAR_SECONDS)
        if not done.ok:
            raise UsageError(
                f"The folder {packing.folder!r} could not be packed: {done.stderr.strip()[:200]}",
                f"The archive would be {shlex.quote(packing.archive)}; is there room?",
            )


async def _input(
    runner: Runner, path: str, work_dir: str, archive_dir: str
) -> tuple[Input, Packing | None]:
    source = posixpath.normpath(posixpath.join(work_dir, path))
    target = stage_target(source, work_dir)
    done = await runner.run(["sh", "-c", _LOOK, "sh", source])
    if not done.ok:
        raise UsageError(
            f"There is no {path!r} to stage.", f"Looked for {source}; name a file or a folder."
        )
    if done.stdout.startswith("file"):
        return Input(source, target), None
    key = hashlib.sha256(f"{source}\0{done.stdout}".encode()).hexdigest()[:16]
    archive = posixpath.join(archive_dir, f"{posixpath.basename(source)}-{key}.tar")
    return Input(archive, target, "tar", source), Packing(source, archive)


def plan_outputs(paths: Iterable[str], work_dir: str) -> tuple[str, ...]:
    """The paths as names below the working directory, which the job's files are compared with.

    Raises UsageError for a path that leads out of it: nothing of the job can be there.
    """
    names: list[str] = []
    for path in paths:
        name = posixpath.relpath(posixpath.normpath(posixpath.join(work_dir, path)), work_dir)
        if name == ".":
            return ()  # all that is new, as if none had been named
        if name.split("/")[0] == "..":
            raise UsageError(
                f"{path!r} is not in the job's working directory, so it cannot come back from it.",
                "Name files and folders as the notebook writes them, relative to its own folder.",
            )
        names.append(name)
    return tuple(names)


def stage_target(source: str, work_dir: str) -> str:
    """The same place relative to the working directory, or the last name of a path outside."""
    source = posixpath.normpath(source)
    relative = posixpath.relpath(source, work_dir)
    if posixpath.commonpath([source, work_dir]) == source:
        raise UsageError(
            "The whole folder of the notebook cannot be staged, nor one around it.",
            "Name the data folders and files in it.",
        )
    return posixpath.basename(source) if relative.startswith("../") else relative
