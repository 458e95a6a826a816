"""Results back from scratch, whole per file, whatever ends the job."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import platform
import shutil
import time
from pathlib import Path

from jupyter_hpc.batch.runtime.job.staging import DRAFT, MISSING, Plan, listing, manifest
from jupyter_hpc.batch.runtime.log import log


def open_for_writing(scratch: Path) -> set[str]:
    """Files below a folder that some process of ours is writing, where /proc can tell."""
    root = os.path.realpath(scratch)
    writing: set[str] = set()
    for entry in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            path = os.readlink(entry)
            if not path.startswith(root + "/"):
                continue
            with open("/proc/{}/fdinfo/{}".format(*entry.split("/")[2::2]), encoding="ascii") as f:
                flags = next(line for line in f if line.startswith("flags:"))
            if int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR):
                writing.add(os.path.relpath(path, root))
        except (OSError, StopIteration, ValueError):
            continue
    return writing


class CopyBack:
    """Brings new and changed files from scratch to the results folder of the run."""

    def __init__(self, scratch: Path, results: Path, plan: Plan) -> None:
        self.scratch, self.results, self.plan = scratch, results, plan
        self.inputs = manifest(scratch)
        self.done: dict[str, tuple[int, int]] = {}
        self.problems: dict[str, str] = {}
        self.where = f"{platform.node()}:{scratch}"
        #: Rows of the list of missing files that an earlier part of this run has left.
        self.lost = self._earlier_rows()

    def pending(self, named: bool = True) -> list[str]:
        """Files that are new or changed and not yet back, small ones first."""
        files = listing(self.scratch)
        wanted = [
            name
            for name, state in files.items()
            if self.inputs.get(name) != state and self.done.get(name) != state
        ]
        if self.plan.outputs and named:
            wanted = [name for name in wanted if self._is_output(name)]
        return sorted(wanted, key=lambda name: files[name][0])

    def _is_output(self, name: str) -> bool:
        path = Path(name)
        return any(
            path.match(pattern)
            or name == pattern
            or name.startswith(pattern.rstrip("/") + "/")
            or ("**" in pattern and fnmatch.fnmatchcase(name, pattern.replace("**/", "*")))
            for pattern in self.plan.outputs
        )

    def _pending_at_the_end(self) -> list[str]:
        """The same; everything, if no file has a name that was to come back."""
        names = self.pending()
        if names or self.done or not self.plan.outputs:
            return names
        # A name may have been mistyped, and what stays on scratch is lost.
        names = self.pending(named=False)
        if names:
            wanted = ", ".join(self.plan.outputs)
            log(f"no file is called {wanted}; all new and changed ones come back instead")
        return names

    def run(self, final: bool = False) -> bool:
        """Copy what is ready, with `final` also files that are open; True if all are back."""
        # In this order: a file that is begun after the look at open ones is not in the list.
        names = self._pending_at_the_end() if final else self.pending()
        writing = set() if final else open_for_writing(self.scratch)
        self.problems = {name: "being written" for name in names if name in writing}
        ready = [name for name in names if name not in writing]
        if final:
            self._list_missing(ready)
        shown = time.monotonic()
        for number, name in enumerate(ready):
            self._copy(name, final)
            if final and time.monotonic() - shown > 1:
                self._list_missing(ready[number + 1 :])
                shown = time.monotonic()
        if final:
            self._list_missing([])
        return not self.problems

    def _copy(self, name: str, final: bool) -> None:
        source, target = self.scratch / name, self.results / name
        # The name of a file has 255 bytes, and a character up to four.
        draft = target.with_name(f".{target.name[:50]}{DRAFT}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(3):
                before = os.stat(source)
                with open(source, "rb") as reader, open(draft, "wb") as writer:
                    shutil.copyfileobj(reader, writer, 1024 * 1024)
                    writer.flush()
                    os.fsync(writer.fileno())
                after = os.stat(source)
                state = (after.st_size, after.st_mtime_ns)
                if (before.st_size, before.st_mtime_ns) == state:
                    break
            else:
                if not final:  # it changes all the time: not whole yet
                    os.unlink(draft)
                    self.problems[name] = "being written"
                    return
            shutil.copystat(source, draft)
            os.replace(draft, target)
            self.done[name] = state
            self.problems.pop(name, None)
        except FileNotFoundError:  # deleted by the program in the meantime
            self.problems.pop(name, None)
        except OSError as error:
            self.problems[name] = error.strerror or str(error)
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def _list_missing(self, waiting: list[str]) -> None:
        """Keep the list of files that are not back where a person looks for it."""
        why = {**self.problems, **dict.fromkeys(waiting, "not copied yet")}
        rows = [f"{name}\t{why[name]}\t{self.where}" for name in sorted(why)]
        rows += [row for name, row in self.lost.items() if name not in {*why, *self.done}]
        path = self.results / MISSING
        try:
            if rows:
                self.results.mkdir(parents=True, exist_ok=True)
                head = "Files that are not here, why, and where they were left:"
                # Names are bytes, and need not be text.
                path.write_bytes("\n".join([head, *rows, ""]).encode("utf-8", "surrogateescape"))
            elif path.exists():
                path.unlink()
        except OSError as error:
            log(f"the list of missing files cannot be written: {error}")
        for name, reason in list(self.problems.items())[:20]:
            log(f"not copied back: {name} ({reason})")

    def _earlier_rows(self) -> dict[str, str]:
        """What the list says about other scratch folders than ours, by the names of the files."""
        try:
            text = (self.results / MISSING).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return {}
        rows = [row for row in text.split("\n")[1:] if row and not row.endswith(self.where)]
        return {row.partition("\t")[0]: row for row in rows}
