"""What the program deletes on scratch is deleted among its results as well.

Else every checkpoint that it does not keep would fill a quota, and come back to the next part.
Only results of this run are ever deleted, nothing of the notebook's folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterable
from pathlib import Path

from jupyter_hpc.batch.runtime.job.staging import is_whole
from jupyter_hpc.batch.runtime.log import log


class Deletions:
    """Carries deletions over from a scratch folder to the results."""

    def __init__(self, scratch: Path, results: Path) -> None:
        self.scratch, self.results = scratch, results
        self.count = 0
        self._missed: set[str] = set()

    def carry(self, ours: Iterable[str], there: Container[str], over: bool) -> set[str]:
        """Delete what of our results is no longer there; their names.

        To be called when all else is back. Unless the program is `over`, only what the look
        before had missed as well: what it was replaced by may be newer than that look.
        """
        gone = {name for name in ours if name not in there and _is_gone(self.scratch / name)}
        ready = gone if over else gone & self._missed
        self._missed = gone
        if not ready or not is_whole(self.scratch):  # something has cleared it
            return set()
        for name in sorted(ready, reverse=True):
            self._delete(name)
        self.count += len(ready)
        return ready

    def say(self) -> None:
        """One line, at the end."""
        if self.count:
            log(f"{self.count} result(s) of this run were deleted by it and are no longer kept")
        self.count = 0

    def _delete(self, name: str) -> None:
        path = self.results / name
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        # An empty folder would be taken for a checkpoint by the next part.
        for folder in path.relative_to(self.results).parents:
            if os.path.lexists(self.scratch / folder):
                return
            with contextlib.suppress(OSError):
                (self.results / folder).rmdir()


def _is_gone(path: Path) -> bool:
    """Whether nothing has this name; a disk that fails only seems to be empty."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
