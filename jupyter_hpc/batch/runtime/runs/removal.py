"""Deletes what a run has left: its folder, or of one run of a sweep its part of it.

    python jupyter_hpc_runs.py holds NOTES ID…
    python jupyter_hpc_runs.py remove NOTES ID FOLDER MARK…

`holds` says what would go, with a mark; `remove` deletes exactly that, and nothing of a run that
is not that any more. Both answer in lines of JSON. Only folders go that a note of ours names, that
have the name of a run and hold one, and that belong to the caller. No link is followed. A
folder first gets a name that tells what becomes of it: whoever is stopped half-way can ask again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.marks import NOBODY
from jupyter_hpc.batch.runtime.job.run_table import TABLE_NAME, RunRow, run_table, write_run_table
from jupyter_hpc.batch.runtime.runs.remembered import forget

#: A folder that is being deleted is called so, followed by its own name.
DELETED = ".deleted-"
#: What was written to more recently is not deleted before its run has said that it is over.
QUIET_SECONDS = 600.0
#: So many files are named, the largest.
MAX_NAMED = 10

#: As batch/submit/runs.py names the folders of runs.
_RUN_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_RUN_ID = re.compile(r"(\d+)(?:_(\d+))?")
#: One of them is in every run folder.
_RUN_MARKS = ("run.json", "conversion.json")


class NotDeleted(Exception):
    """Why a run is left as it is, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Doomed:
    """What goes with a run: names in folders that are held open, so that none can be swapped."""

    def __init__(self, notes: Path, run_id: str) -> None:
        found = _RUN_ID.fullmatch(run_id)
        if found is None:
            raise NotDeleted(f"{run_id!r} is not a run.", "It looks like 1234 or 1234_5.")
        self.notes, self.job_id, self.task = notes, found[1], found[2] or ""
        try:
            self.run_dir = Path((notes / self.job_id).read_text(encoding="utf-8").strip("\n"))
        except (OSError, ValueError):
            raise NotDeleted(
                f"No run is noted under {self.job_id}.", "It may have been deleted before."
            ) from None
        if not (self.run_dir.is_absolute() and _RUN_NAME.fullmatch(self.run_dir.name)):
            raise NotDeleted(
                f"{self.run_dir} is no folder of a run.", "Look at it, and delete it yourself."
            )
        self.open: list[int] = []

    def __enter__(self) -> Doomed:
        self.parent = self._folder(str(self.run_dir.parent))
        #: The run folder by its own name, or by that which it got from a delete before; -1: gone.
        self.name = self.run_dir.name
        self.folder = self._own(self.name, self.parent)
        if self.folder < 0:
            self.name = DELETED + self.run_dir.name
            self.folder = self._own(self.name, self.parent)
        if self.folder >= 0 and self.name == self.run_dir.name:
            self._check_run()
        if self.task and self.folder >= 0 and self._tasks() == [self.task]:
            self.task = ""  # the last one: nothing of the sweep is left
        if self.task and self.folder >= 0 and not self._trees() and not self._own_files():
            raise NotDeleted(
                f"The sweep {self.job_id} has no run {self.task}.", "It may have been deleted."
            )
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self.open:
            os.close(fd)

    def _folder(self, path: str, within: int | None = None) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            fd = os.open(path, flags | (os.O_NOFOLLOW if within is not None else 0), dir_fd=within)
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise NotDeleted(
                f"{self.run_dir} is not a plain folder that can be opened: {error.strerror}.",
                "Look at it, and delete it yourself.",
            ) from error
        self.open.append(fd)
        return fd

    def _own(self, name: str, within: int) -> int:
        """A folder of the caller, no link; -1 if there is none."""
        if within < 0:
            return -1
        fd = self._folder(name, within)
        if fd >= 0 and os.fstat(fd).st_uid not in (os.geteuid(), *NOBODY):
            raise NotDeleted(f"{self.run_dir} belongs to somebody else.", "Ask its owner.")
        return fd

    def _check_run(self) -> None:
        for name in _RUN_MARKS:
            try:
                if stat.S_ISREG(os.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mode):
                    return
            except OSError:
                continue
        raise NotDeleted(
            f"{self.run_dir} holds no run: {_RUN_MARKS[0]} is missing.",
            "Look at it, and delete it yourself.",
        )

    def _tasks(self) -> list[str]:
        return [name[:-5] for name in self._names("parameters") if name.endswith(".json")]

    def _names(self, folder: str) -> list[str]:
        fd = self._folder(folder, self.folder)
        return sorted(os.listdir(fd)) if fd >= 0 else []

    def _own_files(self) -> list[str]:
        """The single files of one run of a sweep."""
        logs = [name for name in self._names("logs") if name.endswith(f"_{self.task}.out")]
        given = [name for name in self._names("parameters") if name.split(".")[0] == self.task]
        return [f"parameters/{name}" for name in given] + [f"logs/{name}" for name in logs]

    def _parts(self) -> list[tuple[str, int, str]]:
        """Where a run of a sweep has a folder: in what, that one open, its name while it goes."""
        doomed = {"output": DELETED + self.task, "checkpoints": f"{DELETED}checkpoints-{self.task}"}
        return [(place, self._folder(place, self.folder), name) for place, name in doomed.items()]

    def _trees(self) -> list[tuple[str, str, int]]:
        """The folders that go: each by its path in the run, and as a name in an open folder."""
        if self.folder < 0:
            return []
        if not self.task:
            return [("", self.name, self.parent)]
        trees = []
        for place, within, doomed in self._parts():
            trees.append((f"{place}/{self.task}", self.task, within))
            trees.append((doomed, doomed, self.folder))
        return [(top, name, fd) for top, name, fd in trees if self._own(name, fd) >= 0]

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every file, link and folder that goes, with its path in the run."""
        for top, name, within in self._trees():
            for root, folders, files, fd in os.fwalk(name, dir_fd=within, onerror=_stop):
                inner = os.path.join(top, os.path.relpath(root, name))
                for each in files + folders:
                    about = os.stat(each, dir_fd=fd, follow_symlinks=False)
                    yield os.path.normpath(os.path.join(inner, each)), about
        if self.task and self.folder >= 0:
            for path in self._own_files():
                yield path, os.stat(path, dir_fd=self.folder, follow_symlinks=False)

    def holds(self) -> dict[str, Any]:
        """What goes, in numbers, and a mark by which it is known again."""
        found = sorted((path, about) for path, about in self.files())
        plain = [(path, about.st_size) for path, about in found if stat.S_ISREG(about.st_mode)]
        text = "".join(f"{path}\0{_state(about)}\0" for path, about in found)
        plain.sort(key=lambda each: -each[1])
        return {
            "run_dir": str(self.run_dir),
            "files": sum(1 for _, about in found if not stat.S_ISDIR(about.st_mode)),
            "bytes": sum(size for _, size in plain),
            "largest": [{"path": path, "bytes": size} for path, size in plain[:MAX_NAMED]],
            "mark": hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16],
        }

    def check_quiet(self) -> None:
        """Nobody may write any more; a job of another cluster with this home is in no queue here.

        Raises NotDeleted where the run has not said that it is over and was written to just now.
        """
        if self.task and self._own(DELETED + self.task, self.folder) >= 0:
            return  # its deletion has begun
        rows = run_table(self.run_dir) if (self.run_dir / "parameters").is_dir() else []
        rows = [row for row in rows or [RunRow(self.run_dir)] if self.task in ("", row.task)]
        if not any(row.state in ("running", "goes on") for row in rows):
            return
        newest = max((about.st_mtime for _, about in self.files()), default=0.0)
        if time.time() - newest < QUIET_SECONDS:
            raise NotDeleted(
                f"Something was written into {self.run_dir} a moment ago: it may still run, "
                "on another cluster, say.",
                "Cancel it where it runs, or delete it ten minutes after its end.",
            )

    def remove(self) -> None:
        """Delete it; its note goes last, since it is what finds the rest again."""
        if self.task:
            self._remove_task()
        else:
            doomed = DELETED + self.run_dir.name
            if self.folder >= 0 and self.name != doomed:
                os.rename(self.name, doomed, src_dir_fd=self.parent, dst_dir_fd=self.parent)
            if self.folder >= 0:
                self._check_same(doomed, self.parent, self.folder)
                _remove_tree(doomed, self.parent)
            for note in (self.notes / self.job_id, self.notes.parent / "watched" / self.job_id):
                with contextlib.suppress(FileNotFoundError):
                    note.unlink()
        forget(self.notes, self.job_id)

    def _check_same(self, name: str, within: int, own: int) -> None:
        """In a folder that others can write, another one may have been put in its place."""
        if not os.path.samestat(os.stat(name, dir_fd=within, follow_symlinks=False), os.fstat(own)):
            raise NotDeleted(
                f"Somebody has put another folder in the place of {self.run_dir}.",
                f"Nothing of it was deleted; it is called {name} now.",
            )

    def _remove_task(self) -> None:
        if self.folder < 0:
            return
        for _, within, doomed in self._parts():
            if self._own(doomed, self.folder) >= 0:
                _remove_tree(doomed, self.folder)
            own = self._own(self.task, within)
            if own >= 0:
                os.rename(self.task, doomed, src_dir_fd=within, dst_dir_fd=self.folder)
                self._check_same(doomed, self.folder, own)
                _remove_tree(doomed, self.folder)
        for path in reversed(self._own_files()):  # its parameters last: they make it a run
            os.unlink(path, dir_fd=self.folder)
        if (self.run_dir / "output" / TABLE_NAME).exists():
            write_run_table(self.run_dir)


def _stop(error: OSError) -> None:
    raise error


def _state(about: os.stat_result) -> str:
    """A folder is known by what it holds; a file by its size and time."""
    if stat.S_ISDIR(about.st_mode):
        return "d"
    return f"{about.st_mode} {about.st_size} {about.st_mtime_ns}"


def _remove_tree(name: str, within: int) -> None:
    for _, folders, files, fd in os.fwalk(name, topdown=False, dir_fd=within, onerror=_stop):
        for each in files:
            os.unlink(each, dir_fd=fd)
        for each in folders:  # a link to a folder is among them
            about = os.stat(each, dir_fd=fd, follow_symlinks=False)
            (os.rmdir if stat.S_ISDIR(about.st_mode) else os.unlink)(each, dir_fd=fd)
    os.rmdir(name, dir_fd=within)


def print_holdings(notes: str, *run_ids: str) -> None:
    """One line for each run: what would go with it, or why it cannot."""
    for run_id in run_ids:
        try:
            with Doomed(Path(notes), run_id) as doomed:
                doomed.check_quiet()
                answer = doomed.holds()
        except NotDeleted as refusal:
            answer = {"message": str(refusal), "hint": refusal.hint}
        except OSError as error:
            answer = _unreadable(error)
        sys.stdout.write(json.dumps({"id": run_id, **answer}) + "\n")


def print_removed(notes: str, *named: str) -> None:
    """One line for each run, which is deleted if it is still what was named: why it was left."""
    for start in range(0, len(named), 3):
        run_id, folder, mark = named[start : start + 3]
        answer = _removed(notes, run_id, folder, mark)
        sys.stdout.write(json.dumps({"id": run_id, **answer}) + "\n")
        sys.stdout.flush()


def _removed(notes: str, run_id: str, folder: str, mark: str) -> dict[str, str]:
    try:
        with Doomed(Path(notes), run_id) as doomed:
            doomed.check_quiet()
            found = doomed.holds()
            if (found["run_dir"], found["mark"]) != (folder, mark):
                raise NotDeleted(
                    f"Run {run_id} is not what it was when you were asked: it holds "
                    f"{found['files']} files now.",
                    "Nothing of it was deleted. Look at it, and ask again.",
                )
            doomed.remove()
    except NotDeleted as refusal:
        return {"message": str(refusal), "hint": refusal.hint}
    except OSError as error:
        return _unreadable(error)
    return {}


def _unreadable(error: OSError) -> dict[str, str]:
    return {
        "message": f"{error.filename or 'Its folder'} is in the way: {error.strerror}.",
        "hint": "What was deleted by then is gone; delete the run again to have the rest deleted.",
    }
