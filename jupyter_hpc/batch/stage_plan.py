"""Which inputs go to scratch: files as they are, folders as one tar each."""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Sequence

from jupyter_hpc.batch.job import Input
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner

#: Making the tar of a large folder takes a while.
_TAR_SECONDS = 3600.0

#: Prints "file SIZE" or "folder NEWEST COUNT SIZE" for one path.
_LOOK = r"""
if [ -f "$1" ]; then
    printf 'file\n'
elif [ -d "$1" ]; then
    cd -- "$1" && printf 'folder ' && find . -type f -printf '%T@ %s %p\n' | sort | cksum
else
    exit 1
fi
"""


async def plan_inputs(
    runner: Runner, paths: Sequence[str], work_dir: str, archive_dir: str
) -> tuple[Input, ...]:
    """Look at each path where the runner runs and make the tars that are not there yet.

    A tar is named after the state of its folder, so that an unchanged folder is packed
    once for many jobs.
    """
    return tuple([await _input(runner, path, work_dir, archive_dir) for path in paths])


async def _input(runner: Runner, path: str, work_dir: str, archive_dir: str) -> Input:
    source = posixpath.normpath(posixpath.join(work_dir, path))
    target = _target(source, work_dir)
    done = await runner.run(["sh", "-c", _LOOK, "sh", source])
    if not done.ok:
        raise UsageError(
            f"There is no {path!r} to stage.", f"Looked for {source}; name a file or a folder."
        )
    if done.stdout.startswith("file"):
        return Input(source, target)
    key = hashlib.sha256(f"{source}\0{done.stdout}".encode()).hexdigest()[:16]
    archive = posixpath.join(archive_dir, f"{posixpath.basename(source)}-{key}.tar")
    script = (
        '[ -f "$2" ] || { mkdir -p -- "$(dirname -- "$2")" && '
        'tar -cf "$2.draft$$" -C "$1" . && mv -- "$2.draft$$" "$2" || '
        '{ rm -f -- "$2.draft$$"; exit 1; }; }'
    )
    packed = await runner.run(["sh", "-c", script, "sh", source, archive], timeout=_TAR_SECONDS)
    if not packed.ok:
        raise UsageError(
            f"The folder {path!r} could not be packed: {packed.stderr.strip()[:200]}",
            f"The archive would be {shlex.quote(archive)}; is there room?",
        )
    return Input(archive, target, "tar")


def _target(source: str, work_dir: str) -> str:
    """The same place relative to the working directory, or the last name of a path outside."""
    relative = posixpath.relpath(source, work_dir)
    if relative == ".":
        raise UsageError(
            "The whole folder of the notebook cannot be staged.",
            "Name the data folders and files in it.",
        )
    return posixpath.basename(source) if relative.startswith("..") else relative
