"""A training that goes on where it ended: the loop stays the user's, `Run` stands beside it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training import writing
from jupyter_hpc.training.common import say, seconds
from jupyter_hpc.training.host_copy import HostCopy
from jupyter_hpc.training.order import LoaderOrder
from jupyter_hpc.training.processes import check_alone
from jupyter_hpc.training.randomness import random_states, set_random_states
from jupyter_hpc.training.signals import EndSignals
from jupyter_hpc.training.store import CheckpointStore
from jupyter_hpc.training.tracking import Metrics, name_run, tracker_ids

#: With this code a program asks for the next part of its run.
GO_ON = 85
_FORMAT = 1


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
        self._parts, self._loader = parts, loader
        self._every, self._each_epoch = seconds(every), each_epoch
        self._store = CheckpointStore(self.folder, keep)
        output = os.environ.get("JUPYTER_HPC_OUTPUT")
        self._metrics = Metrics(Path(output).absolute() if output else self.folder, best)
        self._position = 0
        self._orders: dict[int, LoaderOrder] = {}
        self._order: LoaderOrder | None = None
        #: The random states of the epoch's first moment, and those to go on with.
        self._begin: dict[str, Any] | None = None
        self._now: dict[str, Any] | None = None
        self._loader_state: Any = None
        self._generators: list[Any] = []
        self._saved: tuple[int, int] | None = None
        self._best_is_new, self._wanted, self._in_epochs = False, False, False

    @property
    def log_dir(self) -> Path:
        """Where TensorBoard's writer goes on: SummaryWriter(run.log_dir, purge_step=run.step)."""
        output = os.environ.get("JUPYTER_HPC_OUTPUT")
        return (Path(output).absolute() if output else self.folder) / "tensorboard"

    @property
    def best(self) -> Path | None:
        """The best checkpoint; torch.load(run.best, weights_only=True)["parts"]["model"]."""
        name = self._store.best()
        if name is None:
            return None
        path = self.folder / f"{name}.pt"
        return path if path.exists() else self.folder / name

    # ---- beginning and end ---------------------------------------------------
    def __enter__(self) -> Run:
        check_alone()
        self._copier, self._writer, self._signals = HostCopy(), writing.Writer(), EndSignals()
        self._store.open()
        self.id = self._store.run_id()
        try:
            self._resume()
            self._copier.copy(self._states())  # what cannot be saved is said before hours
            name_run(self.id, self.folder / ".run" / "trackers.json")
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
                self._save(wait=True)
                self._store.set_done(True)
            self._writer.wait()
        finally:
            self._signals.restore()
            self._store.close()

    def _resume(self) -> None:
        content = self._newest()
        if content is None:
            say(f"begins anew; checkpoints go to {self.folder}")
            return
        place, (record,) = content["position"], content["ranks"]
        self.epoch, self._position, self.step = place["epoch"], place["batch"], place["step"]
        self.state = content["state"]
        self._begin, self._now = record["begin"], record["now"]
        self._loader_state = record["loader"]
        self._saved, self.resumed = (self.epoch, self._position), True
        self._metrics.go_on(self.step, content["best"])
        say(f"goes on at epoch {self.epoch}, batch {self._position}, from {self.folder}; "
            "to begin anew, rename that folder")  # fmt: skip

    def _newest(self) -> dict[str, Any] | None:
        """The newest checkpoint that is whole, its parts loaded."""
        for name, manifest in self._store.newest():
            content, damage = writing.read_whole(self._store, name, manifest)
            if damage:
                self._store.pass_over(name, damage)
                continue
            if content.get("format") != _FORMAT:
                raise UsageError(f"The checkpoint {name} is of another version of this kit.")
            self._load_parts(name, content["parts"])
            return content
        if any(self.folder.glob("step-*.json")):
            raise UsageError(
                f"None of the checkpoints in {self.folder} can be read.",
                "Look at them; to begin anew, rename that folder.",
            )
        return None

    def _load_parts(self, checkpoint: str, states: dict[str, Any]) -> None:
        for name, part in self._parts.items():
            if name not in states:
                say(f"the checkpoint {checkpoint} has no {name}; it begins anew")
                continue
            try:
                part.load_state_dict(states[name])
            except Exception as error:
                raise UsageError(
                    f"The checkpoint {checkpoint} does not fit {name}: {error}",
                    f"Change it back, or begin anew: rename {self.folder}",
                ) from error

    # ---- the loop ------------------------------------------------------------
    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left of `count`."""
        if self.epoch >= count:
            say(f"all {count} epochs were done before")
        while self.epoch < count:
            self._store.set_done(False)
            self._in_epochs = True
            if self._position == 0 and self._now is not None:
                set_random_states(self._now)  # those of the loader follow when it is known
                self._generators, self._now = self._now["generators"], None
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
        order = self._order = self._orders.setdefault(id(loader), LoaderOrder(loader))
        for generator, state in zip(order.generators, self._generators, strict=False):
            generator.set_state(state)
        self._generators = []
        if self._begin is None:
            self._begin = order.states()
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
        numbers, is_best = self._metrics.log(self.epoch, self.step, values)
        self._best_is_new = self._best_is_new or is_best
        shown = " ".join(f"{name}: {value:.6g}" for name, value in numbers.items())
        sys.stdout.write(f"epoch {self.epoch} {shown}\n")
        sys.stdout.flush()

    def _next_epoch(self) -> None:
        self.epoch += 1
        self._position, self._order, self._begin = 0, None, None

    # ---- saving --------------------------------------------------------------
    def _boundary(self, *, more: bool = True, epoch_is_over: bool = False) -> None:
        """Between two steps: save if it is time to, and end if that was asked for."""
        signals = self._signals
        now = time.monotonic()
        signals.look(now)
        self._wanted = self._wanted or now >= self._due or (epoch_is_over and self._each_epoch)
        short, ending = signals.time_is_short, signals.is_ending
        wanted = self._wanted and (self._best_is_new or not self._writer.is_busy)
        if not (wanted or short or ending):
            return
        stops = ending or (short and more)
        if wanted or stops:
            self._save(wait=stops)
        if not stops:
            return
        if ending:
            signals.end_by_term()
        if self._writer.succeeded:
            say(f"the time is short: saved at epoch {self.epoch}, batch {self._position}")
        raise SystemExit(GO_ON)

    def _states(self) -> dict[str, Any]:
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        return {"parts": parts, "state": self.state}

    def _save(self, wait: bool) -> None:
        """Copy the state now and write it beside the training; `wait` until it is on the disk."""
        here = (self.epoch, self._position)
        if self._writer.succeeded and self._saved == here:
            self._writer.wait()  # nothing is new
            if self._writer.succeeded:
                return
        self._writer.wait()
        order, last = self._order, next(reversed(self._orders.values()), None)
        stateful = order.loader if order is not None and order.is_stateful else None
        record = {
            "begin": self._begin,
            "now": random_states(last.generators if last is not None else ()),
            "loader": stateful.state_dict() if stateful is not None else None,
        }
        name = f"step-{self.step:09d}-{self.epoch:05d}"
        content = {
            "format": _FORMAT,
            "position": {"epoch": self.epoch, "batch": self._position, "step": self.step},
            "ranks": [record],
            "best": self._metrics.best,
            "id": self.id,
        }
        facts = {**content["position"], "is_best": self._best_is_new, **self._metrics.best}  # type: ignore[dict-item]
        copied = self._copier.copy({**self._states(), **content})
        self._writer.start(lambda: writing.write_whole(self._store, name, copied, facts))
        self._saved, self._wanted, self._best_is_new = here, False, False
        self._due = time.monotonic() + self._every
        text = tracker_ids(self.folder / ".run" / "trackers.json")
        if text is not None:
            self._store.write_text(self.folder / ".run" / "trackers.json", text)
        if wait:
            self._writer.wait()


def _program_name() -> str:
    """What runs: the notebook, or the script."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(os.environ.get("JPY_SESSION_NAME") or main or "run").stem
