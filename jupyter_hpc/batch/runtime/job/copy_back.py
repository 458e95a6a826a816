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
from typing import Any

from jupyter_hpc.batch.runtime.job.entries import state_of
from jupyter_hpc.batch.runtime.job.marks import MISSING
from jupyter_hpc.batch.runtime.job.staging import (
    DRAFT,
    Plan,
    make_parents,
    manifest,
    restored_states,
    results_below,
)
from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.parts.deletions import Deletions


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


#: Files first: what a link leads to is there before the link.
_ORDER = {"file": 0, "link": 1, "folder": 2}
#: Why a file waits for the next copy.
_BEING_WRITTEN = "being written"


class CopyBack:
    """Brings new and changed files, links and empty folders to the results folder of the run."""

    def __init__(self, scratch: Path, results: Path, plan: Plan) -> None:
        self.scratch, self.results, self.plan = scratch, results, plan
        self.inputs = manifest(scratch)
        #: What this part has brought back, and what was back before it began.
        self.done: dict[str, tuple[Any, ...]] = {}
        self.restored = restored_states(scratch)
        self.deletions = Deletions(scratch, results)
        self.problems: dict[str, str] = {}
        self.where = f"{platform.node()}:{scratch}"
        #: Links that lead out of the folder, or to an input, by their names.
        self.leading_out: dict[str, str] = {}
        #: Rows of the list of missing files that an earlier part of this run has left.
        self.lost = self._earlier_rows()
        #: Whether the last list of missing files could be written.
        self.listed = True

    def pending(self, named: bool = True) -> dict[str, tuple[Any, ...]]:
        """What is new or changed and not yet back, small files first."""
        self.there = results_below(self.scratch)
        known = {**self.inputs, **self.restored, **self.done}
        wanted = {name: state for name, state in self.there.items() if known.get(name) != state}
        if self.plan.outputs and named:
            wanted = {name: state for name, state in wanted.items() if self._is_output(name)}
        return dict(sorted(wanted.items(), key=_place))

    def _is_output(self, name: str) -> bool:
        if self.plan.inner:  # outputs are named as the program sees them
            name = os.path.relpath(name, self.plan.inner)
        path = Path(name)
        return any(
            path.match(pattern)
            or name == pattern
            or name.startswith(pattern.rstrip("/") + "/")
            or ("**" in pattern and fnmatch.fnmatchcase(name, pattern.replace("**/", "*")))
            for pattern in self.plan.outputs
        )

    def _pending_at_the_end(self) -> dict[str, tuple[Any, ...]]:
        """The same; everything, if no file has a name that was to come back."""
        names = self.pending()
        ours = (*self.done, *self.restored)
        if names or not self.plan.outputs or any(map(self._is_output, ours)):
            return names
        # A name may have been mistyped, and what stays on scratch is lost.
        names = self.pending(named=False)
        if names:
            wanted = ", ".join(self.plan.outputs)
            log(f"no file is called {wanted}; all new and changed ones come back instead")
        return names

    def take_as_done(self, folders: list[Path]) -> None:
        """What is in one of these folders as it is here need not come back again."""
        for name, state in results_below(self.scratch).items():
            wanted = ("link", self._link_text(name, state[1])) if state[0] == "link" else state
            for folder in folders:
                with contextlib.suppress(OSError):
                    if state_of(str(folder / name)) == wanted:
                        self.done[name] = state

    def run(self, final: bool = False, over: bool = False) -> bool:
        """Copy what is ready, with `final` also files that are open; True if all are back.

        `over` is the program, and will change nothing any more.
        """
        # In this order: a file that is begun after the look at open ones is not in the list.
        states = self._pending_at_the_end() if final else self.pending()
        writing = set() if final else open_for_writing(self.scratch)
        self.problems = {name: _BEING_WRITTEN for name in states if name in writing}
        ready = [name for name in states if name not in writing]
        if final:
            self._list_missing(ready, states)
        shown = time.monotonic()
        for number, name in enumerate(ready):
            self._copy(name, states[name], final)
            if final and time.monotonic() - shown > 1:
                self._list_missing(ready[number + 1 :], states)
                shown = time.monotonic()
        if all(why == _BEING_WRITTEN for why in self.problems.values()):
            for name in self.deletions.carry({**self.restored, **self.done}, self.there, over):
                self.restored.pop(name, None)
                self.done.pop(name, None)
        if final:
            self._list_missing([], states)
            self._say_leading_out()
            self.deletions.say()
        return not self.problems

    def _copy(self, name: str, state: tuple[Any, ...], final: bool) -> None:
        source, target = self.scratch / name, self.results / name
        # The name of a file has 255 bytes, and a character up to four.
        draft = target.with_name(f".{target.name[:50]}{DRAFT}")
        try:
            make_parents(target, self.results.parent)
            if state[0] == "folder":
                target.mkdir(exist_ok=True)
            elif state[0] == "link":
                self._copy_link(name, source, draft)
                os.replace(draft, target)
            else:
                found = self._copy_file(source, draft, final)
                if found is None:
                    os.unlink(draft)
                    self.problems[name] = _BEING_WRITTEN
                    return
                state = found
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

    def _copy_file(self, source: Path, draft: Path, final: bool) -> tuple[Any, ...] | None:
        """The state of what was copied; None if it changes all the time, and is not whole yet."""
        for _ in range(3):
            before = os.stat(source)
            with open(source, "rb") as reader, open(draft, "wb") as writer:
                shutil.copyfileobj(reader, writer, 1024 * 1024)
                writer.flush()
                os.fsync(writer.fileno())
            after = os.stat(source)
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                break
        else:
            if not final:
                return None
        return ("file", after.st_size, after.st_mtime_ns)

    def _copy_link(self, name: str, source: Path, draft: Path) -> None:
        """A link that leads to the same place among the results, or out of them as before."""
        text = self._link_text(name, os.readlink(source))
        inside = os.path.normpath(os.path.join(os.path.dirname(name), text))
        is_input = self.inputs.get(inside) is not None and not (self.results / inside).exists()
        if is_input or inside.split("/")[0] in ("", ".."):
            self.leading_out[name] = text
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        os.symlink(text, draft)

    def _link_text(self, name: str, text: str) -> str:
        """Where a link is to lead, which is never to scratch: that will be gone."""
        # A program knows its folder also by the path behind links in it, as os.getcwd() shows it.
        for root in (str(self.scratch), os.path.realpath(self.scratch)):
            inside = os.path.relpath(text, root) if os.path.isabs(text) else ".."
            if inside.split("/")[0] != "..":
                return os.path.relpath(inside, os.path.dirname(name) or ".")
        return text

    def _say_leading_out(self) -> None:
        for name, target in sorted(self.leading_out.items())[:20]:
            log(f"the link {name} came back as it is; it leads to {target}, which is no result")
        self.leading_out = {}

    def _list_missing(self, waiting: list[str], states: dict[str, tuple[Any, ...]]) -> None:
        """Keep the list of files that are not back where a person looks for it."""
        why = {**self.problems, **dict.fromkeys(waiting, "not copied yet")}
        rows = [
            f"{_in_a_row(name)}\t{why[name]}\t{self.where}\t{_column(states.get(name))}"
            for name in sorted(why)
        ]
        known = {_in_a_row(name) for name in (*why, *self.done)}
        rows += [row for name, row in self.lost.items() if name not in known]
        path = self.results / MISSING
        try:
            if rows:
                self.results.mkdir(parents=True, exist_ok=True)
                head = "Files that are not here, why, where they were left, their size and time:"
                # Names are bytes, and need not be text.
                text = "\n".join([head, *rows, ""]).encode("utf-8", "surrogateescape")
                draft = self.results / f".{MISSING}{DRAFT}"
                draft.write_bytes(text)
                os.replace(draft, path)
            elif path.exists():
                path.unlink()
            self.listed = True
        except OSError as error:
            if self.listed:
                log(f"the list of missing files cannot be written: {error}")
            self.listed = False
        for name, reason in list(self.problems.items())[:20]:
            log(f"not copied back: {name} ({reason})")
        if not self.listed and waiting:
            log(f"not copied back yet: {len(waiting)} files, the first is {waiting[0]}")

    def _earlier_rows(self) -> dict[str, str]:
        """What the list says about other scratch folders than ours, by the names of the files."""
        try:
            text = (self.results / MISSING).read_bytes().decode("utf-8", "surrogateescape")
        except OSError:
            return {}
        found = {}
        for row in text.split("\n")[1:]:
            name, *rest = row.split("\t")
            if len(rest) > 1 and rest[1] != self.where and not self._is_back(name, rest):
                found[name] = row
        return found

    def _is_back(self, name: str, rest: list[str]) -> bool:
        """Whether a part that was killed had copied the file after it wrote the list."""
        with contextlib.suppress(OSError):
            info = os.lstat(self.results / name)
            return rest[2:] == [_column(("file", info.st_size, info.st_mtime_ns))]
        return False


def _place(item: tuple[str, tuple[Any, ...]]) -> tuple[int, int]:
    state = item[1]
    return _ORDER[state[0]], state[1] if state[0] == "file" else 0


def _in_a_row(name: str) -> str:
    """A name that stays in its column: it may hold ends of lines, tabs and worse."""
    return "".join(char if char >= " " and char != "\x7f" else repr(char)[1:-1] for char in name)


def _column(state: tuple[Any, ...] | None) -> str:
    """Size and time as `stat -c '%s %.9Y'` shows them."""
    if state is None or state[0] != "file":
        return ""
    return f"{state[1]} {state[2] // 10**9}.{state[2] % 10**9:09d}"
