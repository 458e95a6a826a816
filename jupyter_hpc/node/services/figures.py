"""The figures and displayed values of a run: their list, and each of them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.errors import HpcError, JobNotFound, UsageError
from jupyter_hpc.node.services.curves import RunFolders, number_and_task
from jupyter_hpc.node.services.jobs import parse_id
from jupyter_hpc.node.services.offload import Offload

#: So many are listed of a job.
MAX_FIGURES = 200
#: A larger one is no thumbnail.
MAX_FIGURE_BYTES = 20_000_000
READ_SECONDS = 10.0

#: Where a run puts them; see batch/runtime/display.
KINDS = ("figures", "displays")

#: What a browser shows of itself; all else is only named.
TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}

#: Folder and file, below the folder of a task in a sweep.
_NAME = re.compile(r"(?:[0-9]{1,10}/)?(?:figures|displays)/[^/\0]+")


@dataclass(frozen=True)
class Figure:
    """One figure or displayed value. `name` is its path below the output folder."""

    run: str
    name: str
    #: figure or display
    kind: str
    #: What a browser shows it as; None for what it shows not.
    type: str | None
    size: int
    modified: float
    #: For the file browser; None outside of what that shows.
    path: str | None


@dataclass(frozen=True)
class FigureFile:
    """A file to be shown."""

    type: str
    etag: str
    content: bytes


def figures_of(
    output: Path, runs: Sequence[tuple[str, str]], root: str | None
) -> tuple[list[Figure], int]:
    """The figures of these runs, each an id and its task, and how many more there are."""
    found: list[Figure] = []
    more = 0
    for run, task in runs:
        for kind in KINDS:
            folder = output / task / kind
            for entry in _entries(folder):
                if len(found) >= MAX_FIGURES:
                    more += 1
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    continue  # taken back just now
                name = f"{task}/{kind}/{entry.name}" if task else f"{kind}/{entry.name}"
                found.append(
                    Figure(
                        run=run,
                        name=name,
                        kind=kind.removesuffix("s"),
                        type=TYPES.get(Path(entry.name).suffix.lower(), "").partition(";")[0]
                        or None,
                        size=status.st_size,
                        modified=status.st_mtime,
                        path=_below(str(folder / entry.name), root),
                    )
                )
    return found, more


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(files, key=lambda entry: _in_order(entry.name))


def _in_order(name: str) -> list[tuple[int, str]]:
    """cell03_2 before cell03_10."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"([0-9]+)", name)]


def _below(path: str, root: str | None) -> str | None:
    relative = os.path.relpath(path, root) if root else os.pardir
    return None if relative.split(os.sep)[0] == os.pardir else relative


class FigureService:
    """Gives figures out: only files of the output folder of a run that is noted."""

    def __init__(self, folders: RunFolders, offload: Offload) -> None:
        self._folders = folders
        self._offload = offload

    async def read(self, job_id: str, name: str) -> FigureFile:
        """The figure of that name; JobNotFound if there is none."""
        number, _ = number_and_task(parse_id(job_id))
        if not _NAME.fullmatch(name) or "/.." in name:
            raise UsageError("There is no such figure.", "Figures lie below “figures”.")
        run_dir = await self._folders.of(number)
        try:
            return await self._offload(
                _read, run_dir, name, timeout=READ_SECONDS, about="The folder of the run"
            )
        except OSError as error:
            raise JobNotFound(
                f"There is no figure {name} of job {job_id}.",
                "It may have been removed, or replaced by a newer one.",
            ) from error


def _read(run_dir: Path, name: str) -> FigureFile:
    """Nothing outside of the folder, whatever a link in it says, and nothing that is no file."""
    output = os.path.realpath(run_dir / "output")
    path = os.path.realpath(os.path.join(output, name))
    kind = TYPES.get(os.path.splitext(path)[1].lower())
    if os.path.commonpath([output, path]) != output or kind is None:
        raise FileNotFoundError(name)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(name)
        if status.st_size > MAX_FIGURE_BYTES:
            raise HpcError("This figure is too large to be shown.", "Open it as a file.")
        content = file.read(MAX_FIGURE_BYTES)
    return FigureFile(kind, f'"{status.st_mtime_ns:x}-{status.st_size:x}"', content)
