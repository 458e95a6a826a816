"""How far a run is, by what it prints: epochs, steps of metrics.jsonl, or a progress bar."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.batch.runtime.job.run_table import EPOCH, numbers_in
from jupyter_hpc.batch.runtime.runs.series import SHARE, counts

#: "epoch 3/10", "Epoch 3 of 10"
_ALL_EPOCHS = re.compile(r"\bepoch\b\W{0,3}\d+\s*(?:/|of)\s*(\d+)", re.IGNORECASE)
#: What the number of epochs is called among the parameters of a notebook.
_PARAMETERS = ("epochs", "n_epochs", "num_epochs", "max_epochs", "nepochs", "num_train_epochs")


class Advance:
    """How much of a run is done, told line by line."""

    def __init__(self) -> None:
        #: epoch or percent; empty until something is told.
        self.unit = ""
        self.done = 0.0
        #: All of it, where that is told.
        self.of: float | None = None
        #: Where this part began, and when it last told of more.
        self.begun: float | None = None
        self.advanced_at = 0.0
        self._lowest: dict[str, int] = {}
        self._bars = 0

    def begin_part(self) -> None:
        """Another log begins: what comes from now on is the work of a new job."""
        self.begun = None
        self._bars = 0

    def add_row(self, line: str, written: float) -> None:
        """A line of metrics.jsonl, which is written at the end of an epoch."""
        try:
            row = json.loads(line)
        except ValueError:
            return  # cut off by a kill
        epoch = row.get("epoch") if isinstance(row, dict) else None
        if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0:
            self._tell("epoch", float(epoch - self._from("row", epoch) + 1), written)

    def add_line(self, line: str, written: float) -> None:
        """A line of a log."""
        share = SHARE.search(line)
        percent = min(100, int(share[1])) if share else None
        told = EPOCH.search(line)
        if told is None:
            if percent is not None and self.unit != "epoch":
                self._tell_percent(float(percent), written)
            return
        if every := _ALL_EPOCHS.search(line):
            self.of = float(every[1])
        elif self.unit != "epoch":
            self.of = None  # that of a bar before
        epoch = int(told[1])
        done = float(epoch - self._from("line", epoch))
        if percent is not None:
            done += percent / 100
        elif any(not counts(name) for name in numbers_in(line)):
            done += 1  # its numbers are there, so it is over
        self._tell("epoch", done, written)

    def _from(self, source: str, epoch: int) -> int:
        """The number of the first epoch, 0 or 1, which may differ between log and metrics."""
        self._lowest[source] = min(epoch, self._lowest.get(source, epoch))
        return min(1, self._lowest[source])

    def _tell_percent(self, percent: float, written: float) -> None:
        """The share of a bar: that of the whole run only as long as there is one bar."""
        if self._bars == 0 or percent < self.done:
            self._bars += 1
        if self._bars > 1:
            self.unit, self.of, self.done = "", None, percent
            return
        self.of = 100.0
        self._tell("percent", percent, written)

    def _tell(self, unit: str, done: float, written: float) -> None:
        if unit != self.unit:
            self.unit, self.begun, self.done = unit, None, done
        if self.begun is None:
            # What is told first may have begun before: an epoch with its numbers is over.
            self.begun = max(0.0, done - 1) if unit == "epoch" else 0.0
            self.done = done
        if done >= self.done:
            self.done, self.advanced_at = done, written

    def ends(self, started: float | None, of: float | None) -> float | None:
        """When it comes to its end if it goes on like this; `started` is when its job began."""
        if started is None or of is None or self.begun is None:
            return None
        grown = self.done - self.begun
        if grown < (1.0 if self.unit == "epoch" else 2.0) or self.advanced_at <= started:
            return None  # nothing that a rate could be made of
        return started + (self.advanced_at - started) * max(0.0, of - self.begun) / grown


def all_epochs(parameters: Mapping[str, Any]) -> float | None:
    """The number of epochs that a run was asked for."""
    for name, value in parameters.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name.lower() in _PARAMETERS and is_number and value > 0:
            return float(value)
    return None
