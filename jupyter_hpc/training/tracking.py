"""What a run reached, where the rest of the product and other trackers look for it."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.metrics import deciding, less_is_better
from jupyter_hpc.training.common import say

#: In the folder of a run.
_RECORD = ".run/trackers.json"


class Metrics:
    """The numbers of a run: the last ones in metrics.json, all of them in metrics.jsonl."""

    def __init__(self, folder: Path, best: str | None) -> None:
        self._folder = folder
        word, _, name = (best or "").rpartition(":")
        if word not in ("", "min", "max"):
            raise UsageError(f"best={best!r} is not known.", 'Write "loss" or "max:score".')
        self._deciding, self._word = name or None, word
        self.best: dict[str, Any] = {}

    def go_on(self, step: int, best: dict[str, Any]) -> None:
        """Forget what was logged after the checkpoint: it will come again."""
        self.best = dict(best)
        path = self._folder / "metrics.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        except OSError:
            return
        kept = [line for line in lines if _step_of(line) <= step]
        if len(kept) < len(lines):
            try:
                self._write("metrics.jsonl", "".join(kept))
            except OSError as error:
                say(f"some metrics will be there twice: {error}")

    def log(self, epoch: int, step: int, values: dict[str, Any]) -> tuple[dict[str, float], bool]:
        """Keep the numbers; (them, whether they are the best so far)."""
        numbers = {name: _number(name, value) for name, value in values.items()}
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        row = {"epoch": epoch, "step": step, **{n: finite.get(n) for n in numbers}}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(self._folder / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self._write("metrics.json", json.dumps({"epoch": epoch, "step": step, **finite}))
        except OSError as error:  # a full disk ends no training
            say(f"the metrics were not written: {error}")
        return numbers, self._is_best(finite)

    def _is_best(self, numbers: dict[str, float]) -> bool:
        name = self._deciding or deciding(numbers)
        if name is None or name not in numbers:
            return False
        less = self._word == "min" or (not self._word and less_is_better(name))
        before = self.best.get("value") if self.best.get("metric") == name else None
        value = numbers[name]
        if before is not None and not (value < before if less else value > before):
            return False
        self.best = {"metric": name, "value": value}
        return True

    def _write(self, name: str, text: str) -> None:
        draft = self._folder / f".{name}.new"
        try:
            draft.write_text(text, encoding="utf-8")
            os.replace(draft, self._folder / name)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf  # cut off by a kill


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"run.log({name}=…) got {value!r}, which is no number.") from None


def name_run(run_id: str, folder: Path) -> dict[str, str]:
    """Let trackers that begin from now on go on with the run of the part before.

    The variables that were set for it: `forget_run` takes them back, since another run may follow.
    """
    known = _recorded(folder)
    names = {"WANDB_RUN_ID": run_id, "WANDB_RESUME": "allow", "COMET_EXPERIMENT_KEY": run_id}
    if known.get("mlflow"):  # its server names the runs
        names["MLFLOW_RUN_ID"] = str(known["mlflow"])
    own = {name: value for name, value in names.items() if name not in os.environ}
    os.environ.update(own)
    before, now = known.get("wandb"), tracked_runs().get("wandb")
    if before and now and before != now:
        say("W&B began a new run before Run(…) was made; call wandb.init inside `with Run(…)`")
    return own


def forget_run(names: dict[str, str]) -> None:
    """Take back what `name_run` has set."""
    for name, value in names.items():
        if os.environ.get(name) == value:
            del os.environ[name]


def tracked_runs() -> dict[str, str]:
    """The runs that imported trackers have begun in this thread; MLflow has one for each."""
    found: dict[str, Any] = {}
    try:
        if (wandb := sys.modules.get("wandb")) is not None and wandb.run is not None:
            found["wandb"] = wandb.run.id
        if (mlflow := sys.modules.get("mlflow")) is not None and mlflow.active_run() is not None:
            found["mlflow"] = mlflow.active_run().info.run_id
        comet = sys.modules.get("comet_ml")
        if comet is not None and comet.get_running_experiment() is not None:
            found["comet"] = comet.get_running_experiment().get_key()
    except Exception as error:  # of a tracker: it must not end a training
        say(f"the run of a tracker is not known: {error}")
    return {name: str(value) for name, value in found.items()}


def note_trackers(folder: Path, runs: dict[str, str], write: Callable[[str, str], None]) -> None:
    """Write down the runs of trackers that are new by now."""
    known = _recorded(folder)
    if runs.items() - known.items():
        write(_RECORD, json.dumps({**known, **runs}))


def _recorded(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / _RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
