"""Files of displayed values, named after the cell that shows them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.ranks import is_leader
from jupyter_hpc.batch.runtime.script.state import RUN


class _Saved:
    """Files of the current cell, so that clear_output can take them back."""

    def __init__(self) -> None:
        self.begin(-1)

    def begin(self, cell: int) -> None:
        self.cell = cell
        self.counts: dict[str, int] = {}
        self.files: list[Path] = []
        self.clear_pending = False


SAVED = _Saved()


def new_path(folder: str, suffix: str) -> Path:
    """The next free name of this cell in `folder`: figures/cell03_1.png."""
    if SAVED.cell != RUN.cell:
        SAVED.begin(RUN.cell)
    if SAVED.clear_pending:
        forget_files()
    number = SAVED.counts.get(folder, 0) + 1
    SAVED.counts[folder] = number
    path = RUN.output / folder / f"cell{RUN.cell:02d}_{number}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    SAVED.files.append(path)
    return path


def forget_files() -> None:
    """Take back what this cell has saved."""
    for path in SAVED.files:
        with contextlib.suppress(OSError):
            path.unlink()
    SAVED.files, SAVED.counts, SAVED.clear_pending = [], {}, False


def save(folder: str, suffix: str, data: str | bytes, path: Path | None = None) -> Path | None:
    """Write one displayed value, in the place of an earlier one if `path` is given.

    Only the leading process does. A full disk is logged.
    """
    if not is_leader():
        return None
    try:
        path = path or new_path(folder, suffix)
        path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    except OSError as error:
        log(f"A displayed value of cell {RUN.cell} was not saved: {error}")
        return None
    log("saved " + str(path))
    return path


def _cell_ended() -> None:
    if SAVED.clear_pending and SAVED.cell == RUN.cell:
        forget_files()


RUN.before_next_cell.append(_cell_ended)
