"""A training that goes on where it ended: the loop stays the user's, `Run` stands beside it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import say, seconds, torch_module
from jupyter_hpc.training.host_copy import HostCopy
from jupyter_hpc.training.order import LoaderOrder
from jupyter_hpc.training.processes import Processes
from jupyter_hpc.training.randomness import random_states, set_generators, set_random_states
from jupyter_hpc.training.sharded import ShardedParts, write_parts
from jupyter_hpc.training.signals import EndSignals
from jupyter_hpc.training.store import CheckpointStore, not_saved
from jupyter_hpc.training.tracking import (
    Metrics,
    forget_run,
    name_run,
    note_trackers,
    tracked_runs,
)

#: With this code a program asks for the next part of its run.
GO_ON = 85
_FORMAT = 4


class Run:
    """Saves a training between its steps and goes on with the newest checkpoint.

    Parts are given by name: anything with `state_dict` and `load_state_dict`. Plain values
    are kept in `run.state`. Saved every `every`, at the end of an epoch, and soon after
    USR1 or TERM; the newest `keep` and the best are kept.
    """

    def __init__(
        self,
        *,
        every: str | float = "10 min",
        loader: Any = None,
        folder: str | os.PathLike[str] | None = None,
        best: str | None = None,
        keep: int = 2,
        each_epoch: bool = True,
        **parts: Any,
    ) -> None:
        for name, part in parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise UsageError(
                    f"Run({name}=…) is a {type(part).__name__} without state_dict and "
                    "load_state_dict.",
                    f"Keep plain values in run.state[{name!r}] instead.",
                )
        if keep < 1:
            raise UsageError(f"keep={keep} keeps no checkpoint.", "Give 1 or more.")
        self.state: dict[str, Any] = {}
        self.epoch, self.step = 0, 0
        #: Whether this part goes on from a checkpoint.
        self.resumed = False
        self.id = ""
        given = folder or os.environ.get("JUPYTER_HPC_CHECKPOINTS")
        self.folder = Path(given or Path("checkpoints", _program_name())).absolute()
        self._parts = {name: _unwrapped(part) for name, part in parts.items()}
        self._loader = loader
        self._every, self._each_epoch = seconds(every), each_epoch
        self._store = CheckpointStore(self.folder, keep)
        output = os.environ.get("JUPYTER_HPC_OUTPUT")
        self._output = Path(output).absolute() if output else self.folder
        self._metrics = Metrics(self._output, best)
        self._position = 0
        #: That of this epoch, and of the one before: a loader may have workers that persist.
        self._order: LoaderOrder | None = None
        self._last: LoaderOrder | None = None
        #: The random states of the epoch's first moment, and those to go on with.
        self._begin: dict[str, Any] | None = None
        self._now: dict[str, Any] | None = None
        self._loader_state: Any = None
        #: Where the last checkpoint was taken, and whether it has reached the disk.
        self._saved: tuple[int, int] | None = None
        self._written: Future[bool] = Future()
        self._written.set_result(True)
        self._best_is_new, self._wanted, self._in_epochs = False, False, False

    @property
    def log_dir(self) -> Path:
        """Where TensorBoard's writer goes on: SummaryWriter(run.log_dir, purge_step=run.step)."""
        return self._output / "tensorboard"

    @property
    def best(self) -> Path | None:
        """The best checkpoint; torch.load(run.best, weights_only=True)["parts"]["model"]."""
        name = self._store.best()
        return None if name is None else self.folder / f"{name}.pt"

    # ---- beginning and end ---------------------------------------------------
    def __enter__(self) -> Run:
        self._processes = Processes()
        self._sharded = ShardedParts(self._parts)
        self._copier, self._signals = HostCopy(), EndSignals()
        self._named: dict[str, str] = {}
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        try:
            self.id, drafts, name = self._processes.lead(self._open)
            self._store.drafts = Path(drafts)
            self._resume(name)
            if not self.resumed:  # what cannot be saved is said now, not after hours
                self._copier.copy({**self._states(), "state": self.state})
            self._named = name_run(self.id, self.folder)
        except BaseException:
            self._store.close()
            raise
        self._signals.install()
        self._due = time.monotonic() + self._every
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._save()
                if not self._is_written():
                    raise not_saved(self.folder)
                self._set_done(True)
        finally:
            self._writer.shutdown()
            self._signals.restore()
            self._store.close()
            forget_run(self._named)

    def _open(self) -> tuple[str, str, str | None]:
        """Take the folder; (the run's id, where drafts go, the newest checkpoint that is whole)."""
        self._store.open()
        self._is_known = self._store.has_id()
        found = next(self._store.newest(self._store.read), None)
        if found is None and any(self.folder.glob("step-*.json")):
            raise UsageError(
                f"None of the checkpoints in {self.folder} can be read.",
                "Look at them; to begin anew, rename that folder.",
            )
        name, _, self._content = found or (None, {}, {})
        return self._store.run_id(), str(self._store.drafts), name

    def _resume(self, name: str | None) -> None:
        if name is None:
            self._say(f"begins anew; checkpoints go to {self.folder}")
            if self._processes.is_leader and self._is_known:
                self._metrics.go_on(-1, {})  # of a part that was killed before its first one
            return
        content = self._content if self._processes.is_leader else self._store.read(name)
        self._content = {}
        if content.get("format") != _FORMAT:
            raise UsageError(
                f"The checkpoint {name} is of another version of this kit.",
                f"Go on with that version, or begin anew: rename {self.folder}",
            )
        self._load_parts(name, content)
        place, ranks = content["position"], content["ranks"]
        self.epoch, self._position, self.step = place["epoch"], place["batch"], place["step"]
        size = self._processes.size
        record = ranks[self._processes.rank % len(ranks)]
        self.state = record["state"]
        if len(ranks) == size:
            self._begin, self._now = record["begin"], record["now"]
            self._loader_state = record["loader"]
        else:  # each process reads more of an epoch than before, or less
            self._position = self._position * len(ranks) // size
            self._say(f"was saved by {len(ranks)} processes and goes on with {size}: from here on "
                      "its samples and random numbers differ")  # fmt: skip
        self._saved, self.resumed = (self.epoch, self._position), True
        if self._processes.is_leader:
            self._metrics.go_on(self.step, content["best"])
        self._say(f"goes on at epoch {self.epoch}, batch {self._position}, from {self.folder}; "
            "to begin anew, rename that folder")  # fmt: skip

    def _load_parts(self, checkpoint: str, content: dict[str, Any]) -> None:
        states, names = content["parts"], content["sharded"]
        part = ", ".join(sorted(names or self._sharded.names))
        try:
            if not self._sharded.names.issuperset(names) or (self._sharded.names and not names):
                raise ValueError("it is spread over the processes in one of the two, not in both")
            if names:
                self._sharded.load(self.folder / checkpoint, names, self._processes)
            for part in (part for part in self._parts if part not in self._sharded.names):
                if part in states:
                    self._parts[part].load_state_dict(states[part])
                else:
                    self._say(f"the checkpoint {checkpoint} has no {part}; it begins anew")
        except Exception as error:
            raise UsageError(
                f"The checkpoint {checkpoint} does not fit {part}: {error}",
                f"Change it back, or begin anew: rename {self.folder}",
            ) from error

    def _say(self, text: str) -> None:
        if self._processes.is_leader:
            say(text)

    def _set_done(self, done: bool) -> None:
        if self._processes.is_leader:
            self._store.set_done(done)

    # ---- the loop ------------------------------------------------------------
    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left of `count`."""
        if self.epoch >= count:
            self._say(f"all {count} epochs were done before")
        while self.epoch < count:
            self._set_done(False)
            self._in_epochs = True
            if self._position == 0 and self._now is not None:
                set_random_states(self._now)  # those of the loader follow when it is known
            yield self.epoch
            self._next_epoch()
            self._boundary(more=self.epoch < count, epoch_is_over=True)
        self._in_epochs = False

    def batches(self, loader: Any = None, *, accumulate: int = 1) -> Iterator[Any]:
        """The batches of this epoch that are left; once in an epoch, for the training alone.

        With `accumulate`, gradients are whole, and states saved, after so many of them.
        """
        loader = self._loader if loader is None else loader
        if loader is None:
            raise UsageError("run.batches() has no loader.", "Write run.batches(loader).")
        if self._order is not None:
            raise UsageError(
                "run.batches() was called twice in one epoch.",
                "Use it for the training alone; loop over other loaders as they are.",
            )
        if self._last is None or self._last.loader is not loader:
            self._last = LoaderOrder(loader)
        order = self._order = self._last
        if self._begin is None:
            if self._now is not None and self._in_epochs:
                set_generators(self._now, order.generators)
            elif self._now is not None:
                set_random_states(self._now, order.generators)
            self._begin, self._now = random_states(order.generators), None
        batches = order.start(
            self.epoch, self._position, self._begin, self._now, self._loader_state
        )
        self._now = self._loader_state = None
        for batch in batches:
            yield batch
            self._position += 1
            self.step += 1
            # After the last batch the end of the epoch comes, with what belongs to it.
            if self._position % accumulate == 0 and self._position != order.length:
                self._boundary()
        if not self._in_epochs:
            self._next_epoch()
            self._boundary(epoch_is_over=True)

    def log(self, **values: Any) -> None:
        """Numbers of this epoch: to the log, metrics.json and the table of runs."""
        if not self._processes.is_leader:
            return
        numbers, is_best = self._metrics.log(self.epoch, self.step, values)
        self._best_is_new = self._best_is_new or is_best
        shown = " ".join(f"{name}: {value:.6g}" for name, value in numbers.items())
        sys.stdout.write(f"epoch {self.epoch} {shown}\n")
        sys.stdout.flush()

    def _next_epoch(self) -> None:
        self.epoch += 1
        self._position, self._order, self._begin, self._now = 0, None, None, None

    # ---- saving --------------------------------------------------------------
    def _boundary(self, *, more: bool = True, epoch_is_over: bool = False) -> None:
        """Between two steps: save if it is time to, and end if that was asked for.

        What one process has noticed, all do at the same step, mostly the one after.
        """
        signals, now = self._signals, time.monotonic()
        if self._processes.is_leader:
            signals.look()
        flags = (
            now >= self._due and self._processes.is_leader,
            signals.time_is_short,
            signals.is_ending,
            not self._written.done(),
            self._best_is_new,
        )
        due, short, ending, busy, best = self._processes.agree(flags, self.step, wait=epoch_is_over)
        self._wanted = self._wanted or bool(due) or (epoch_is_over and self._each_epoch)
        stops = bool(ending or (short and more))
        # The numbers of a best one are those of this very state: it waits for the one before it.
        if stops or (self._wanted and (best or not busy)):
            self._save()
        if not stops:
            return
        if self._is_written():
            self._say(f"the time is short: saved at epoch {self.epoch}, batch {self._position}")
        signals.leave(bool(ending), GO_ON, together=self._processes.size > 1)

    def _states(self) -> dict[str, Any]:
        """What this process has to write of the parts."""
        whole = self._parts if self._processes.is_leader else {}
        names = [name for name in whole if name not in self._sharded.names]
        parts = {name: self._parts[name].state_dict() for name in names}
        return {"parts": parts, "sharded": self._sharded.states()}

    def _save(self) -> None:
        """Copy the state now, and write it beside the training."""
        here = (self.epoch, self._position)
        if self._saved == here and self._is_written():
            return  # nothing is new
        self._written.result()
        if self._processes.is_leader:
            self._store.check_owner()
        order, last = self._order, self._last
        stateful = order.loader if order is not None and order.is_stateful else None
        copied = self._copier.copy(
            {
                **self._states(),
                "rank": {
                    "begin": self._begin,
                    "now": random_states(last.generators if last is not None else ()),
                    "loader": stateful.state_dict() if stateful is not None else None,
                    "state": self.state,
                },
            }
        )
        place = {"epoch": self.epoch, "batch": self._position, "step": self.step}
        best = dict(self._metrics.best)
        content = {
            "format": _FORMAT,
            "parts": copied["parts"],
            "sharded": sorted(copied["sharded"]),
            "position": place,
            "ranks": self._processes.gather_states(copied["rank"]),
            "best": best,
            "id": self.id,
        }
        facts = {**place, "is_best": self._best_is_new, **best}
        self._written = self._writer.submit(
            self._write, content, facts, copied["sharded"], tracked_runs()
        )
        self._saved, self._wanted, self._best_is_new = here, False, False
        self._due = time.monotonic() + self._every

    def _write(
        self, content: dict[str, Any], facts: dict[str, Any], sharded: Any, trackers: Any
    ) -> bool:
        """Whether it reached the disk; if not, that is said, and costs nothing that was there."""
        name = f"step-{facts['step']:09d}-{facts['epoch']:05d}"
        try:
            files = {}
            if self._sharded.names:
                files = write_parts(self._store, name, sharded, self._processes)
            if self._processes.is_leader:
                note_trackers(self.folder, trackers, self._store.write_text)
                file = f"{name}.pt"
                files[file] = self._store.write(file, lambda to: torch_module().save(content, to))
                self._store.commit(name, files, facts)
        except Exception as error:
            say(f"no checkpoint was written, the one before is whole: {error}")
            if self._processes.is_leader:
                self._store.discard(name)
            return False
        return True

    def _is_written(self) -> bool:
        """Wait for the write that is under way; whether it succeeded, everywhere."""
        return not self._processes.any(not self._written.result())


def _unwrapped(part: Any) -> Any:
    """The module inside of DistributedDataParallel, so that one process reads it as well."""
    inner = getattr(part, "module", None)
    return inner if type(part).__name__ == "DistributedDataParallel" and inner else part


def _program_name() -> str:
    """What runs: the notebook, or the script."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(os.environ.get("JPY_SESSION_NAME") or main or "run").stem
