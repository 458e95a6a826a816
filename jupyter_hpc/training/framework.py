"""A run whose loop belongs to a framework: what the framework leaves out stands beside it.

It has no loop and no state of its own. The framework says when a step is over, and writes its
own checkpoints; here they get a name only when they are whole.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import number, say, seconds
from jupyter_hpc.training.processes import Processes
from jupyter_hpc.training.run import GO_ON, Run
from jupyter_hpc.training.signals import EndSignals
from jupyter_hpc.training.store import CheckpointStore, checksum, not_saved
from jupyter_hpc.training.tracking import (
    Metrics,
    forget_run,
    name_run,
    note_trackers,
    tracked_runs,
)


class FrameworkRun:
    """An id and a folder that all parts share, USR1 and TERM as a question after each step,
    checkpoints that are whole, numbers for the table of runs, code 85, and DONE at the end.
    """

    def __init__(
        self,
        *,
        every: str | float = "10 min",
        folder: str | os.PathLike[str] | None = None,
        keep: int = 2,
    ) -> None:
        plain = Run(folder=folder, keep=keep)
        self.folder, self.log_dir = plain.folder, plain.log_dir
        self.id, self._found, self._saved = "", "", ""
        #: Whether the last checkpoint is whole, as far as there was one.
        self._is_saved, self._named = True, dict[str, str]()
        #: Whether this part ends after the checkpoint that is wanted now.
        self.is_over = False
        self._by_term, self._began, self._is_open = False, False, False
        self._every, self._due = seconds(every), 0.0
        self._store = CheckpointStore(self.folder, keep)
        self._metrics = Metrics(self.log_dir.parent, None)
        self._signals: EndSignals | None = None
        self._group: Processes | None = None

    def __enter__(self) -> FrameworkRun:
        self.open()
        self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self.is_over:
                self.leave()
            if kind is None:
                self.set_done(True)
        finally:
            self.close()

    # ---- beginning and end ---------------------------------------------------
    def open(self) -> None:
        """Take the folder, and tell trackers that begin from now on which run this is."""
        # A framework mostly lets the processes find each other later, when it begins.
        if not self._is_open and not number("RANK", "LOCAL_RANK", "SLURM_PROCID"):
            self._store.open()
            self._is_open = True
            self.id = self._store.run_id()
            self._named = name_run(self.id, self.folder)

    def listen(self) -> None:
        """Hear USR1 and TERM from now on, beside whoever does already."""
        if self._signals is None:
            self._signals = EndSignals()
            self._signals.install()
        self._due = time.monotonic() + self._every

    def stop_listening(self) -> None:
        """Give the signals back."""
        if self._signals is not None:
            self._signals.restore()
        self._signals = None

    def close(self) -> None:
        """Give the signals back, and let others have the folder."""
        self.stop_listening()
        self._is_open, self._group = False, None
        self._store.close()
        forget_run(self._named)

    def set_done(self, done: bool) -> None:
        """Say that there is no more to do, or take it back; HpcError if the end was not saved."""
        if done and not self._is_saved:
            raise not_saved(self.folder)
        if self.processes.is_leader:
            self._store.set_done(done)

    def leave(self) -> NoReturn:
        """End this process with 85, or as TERM would have done."""
        signals = self._signals or EndSignals()
        signals.leave(self._by_term, GO_ON, together=self.processes.size > 1)

    @property
    def processes(self) -> Processes:
        """Those that train together; made by all of them at the same step."""
        if self._group is None:
            self._group = Processes()
            self.id, drafts = self._group.lead(lambda: (self.id, str(self._store.drafts)))
            self._store.drafts = Path(drafts)
        return self._group

    # ---- the loop ------------------------------------------------------------
    def after_step(self, step: int, *, more: bool = True) -> bool:
        """Whether to save now, the same in all processes; `more` to do comes after it.

        To be called between two steps. If `is_over` is set then, this part has to end.
        """
        processes, signals = self.processes, self._signals
        self._begin(step)
        if signals is None:
            raise UsageError("A run hears nothing before it has begun.", "Write `with run:`.")
        now = time.monotonic()
        if processes.is_leader:
            signals.look()
        due = now >= self._due and processes.is_leader
        flags = (due, signals.time_is_short, signals.is_ending)
        # What one has noticed, all do at the same step; so nobody waits for the slowest.
        wanted, short, ending = processes.agree(flags, step, wait=False)
        self._by_term = bool(ending)
        self.is_over = self._by_term or bool(short and more)
        return self.is_over or bool(wanted)

    def log(self, step: int, epoch: int, /, **values: Any) -> None:
        """Numbers of now: to the log, metrics.json and the table of runs."""
        self._begin(step)
        if self.processes.is_leader:
            own = {name: each for name, each in values.items() if name not in ("epoch", "step")}
            numbers, _ = self._metrics.log(epoch, step, own)
            shown = "".join(f" {name}: {value:.6g}" for name, value in numbers.items())
            sys.stdout.write(f"epoch {epoch}{shown}\n")
            sys.stdout.flush()

    def _begin(self, step: int) -> None:
        """At the first step of this part: what was said after the checkpoint will come again."""
        if self._began:
            return
        self._began = True
        self.set_done(False)
        if self.processes.is_leader:
            self._metrics.go_on(step - 1, {})
            if self._found:
                say(f"goes on from {self._found}; to begin anew, rename that folder")
            else:
                say(f"begins anew; checkpoints go to {self.folder}")

    # ---- checkpoints ---------------------------------------------------------
    def newest(self) -> str | None:
        """The newest checkpoint that is whole; damaged ones are passed over and said."""
        for name, manifest, _ in self._store.newest():
            self._found = str(self.folder / manifest.get("checkpoint", name))
            return self._found
        return None

    def save(self, write: Callable[[str], object], step: int, epoch: int) -> None:
        """Let all processes `write` a file or folder; it has its name when it is on the disk."""
        name = f"step-{step:09d}-{epoch:05d}"
        if name == self._saved:
            return  # nothing is new
        several, self._is_saved = self.processes.size > 1, False
        draft = self._store.drafts / f"{name}.ckpt"  # where the leader writes as well
        if self.processes.is_leader:
            self._store.keep_drafts()
        try:
            write(str(draft))
            self._seal(draft, f"{name}.ckpt", name, {"step": step, "epoch": epoch})
            self._saved, self._is_saved = name, True
        except (OSError, RuntimeError) as error:  # what torch.save makes of a full disk
            if several:
                raise  # the others wait for this one
            say(f"the checkpoint {name} was not written, the one before it is kept: {error}")
        finally:
            if not self._is_saved and self.processes.is_leader:
                self._store.discard(name)
        self._due = time.monotonic() + self._every

    def seal(self, checkpoint: str, step: int) -> None:
        """Note that the framework has written a checkpoint below the folder; it removes it, too."""
        name = f"step-{step:09d}-00000"
        self._is_saved = False
        self._seal(self.folder / checkpoint, checkpoint, name, {"step": step})
        self._is_saved = True
        self._due = time.monotonic() + self._every

    def _seal(self, written: Path, checkpoint: str, name: str, facts: dict[str, Any]) -> None:
        """Give what all have written its name; nobody goes on, or ends, before it has it."""
        self.processes.agree((), facts["step"])
        if self.processes.is_leader:
            files = {}
            for path in _files(written):
                with open(path, "rb+") as file:
                    os.fsync(file.fileno())
                files[str(Path(checkpoint) / path.relative_to(written))] = checksum(path)
            self._store.commit(name, files, {**facts, "checkpoint": checkpoint})
            note_trackers(self.folder, tracked_runs(), self._store.write_text)
        self.processes.agree((), facts["step"])


def _files(path: Path) -> Iterator[Path]:
    """The files of a checkpoint, which is one or a folder of them; links in it are none."""
    if path.is_dir():
        found = sorted(path.rglob("*"))
        yield from (each for each in found if each.is_file() and not each.is_symlink())
    else:
        yield path
