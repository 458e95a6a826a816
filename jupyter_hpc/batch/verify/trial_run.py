"""A short run of a notebook, here and now, that tells how long and how large the whole one is.

It runs as a script in a copy of the notebook's folder, twice: with one epoch and with several.
What the second takes longer is the time of its further epochs; the rest is spent once.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.runtime import RUNTIME_FILE, shipped_source
from jupyter_hpc.batch.verify.copies import work_copy
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import duration, printable_lines

#: What is asked for beyond what was measured: other nodes and other hours are slower.
MARGIN = 0.3
#: Seconds for starting and copying, beside those of the trial itself.
_GRACE_SECONDS = 60.0
_LAST_LINES = 15
_LEAST_SECONDS = 300
#: Two runs that differ by less than this differ by chance.
_SURE_SECONDS = 3.0
_GB = 10**9


class TrialFailed(HpcError):
    """The trial did not come to its end."""

    exit_code = 1


@dataclass(frozen=True)
class Measured:
    """What a trial took, in seconds and bytes."""

    epochs: int
    seconds: float
    #: Seconds of one epoch, and of all that is done once.
    epoch: float
    once: float
    memory: int
    gpu_memory: int = 0

    def whole(self, epochs: int) -> float:
        """Seconds of a run with so many epochs."""
        return self.once + epochs * self.epoch

    def time_limit(self, epochs: int) -> int:
        """Seconds to ask for, with the margin, in whole minutes."""
        wanted = max(_LEAST_SECONDS, self.whole(epochs) * (1 + MARGIN))
        return math.ceil(wanted / 60) * 60

    def memory_request(self) -> str:
        """Memory to ask for, with the margin."""
        return f"{max(1, math.ceil(self.memory * (1 + MARGIN) / _GB))}G"

    def parts(self, epochs: int, part_seconds: int) -> int:
        """So many parts of that length hold all epochs, with the margin; 0: none holds one."""
        room = part_seconds / (1 + MARGIN) - self.once
        in_a_part = math.floor(room / self.epoch) if self.epoch > 0 else epochs
        return math.ceil(epochs / in_a_part) if in_a_part > 0 else 0

    def sentence(self, epochs: int) -> str:
        """What was measured, and what that means for all epochs."""
        gpu = f", {_size(self.gpu_memory)} on the GPU" if self.gpu_memory else ""
        return (
            f"Trial: {self.epochs} epoch{'s' * (self.epochs > 1)} in {_short(self.seconds)} "
            f"({_short(self.epoch)} each, {_short(self.once)} once), "
            f"{_size(self.memory)} of memory{gpu}. "
            f"All {epochs} would take {_short(self.whole(epochs))}; "
            f"asked for is {MARGIN:.0%} more."
        )

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


async def trial_run(
    notebook: Path,
    conversion: Conversion,
    runner: Runner,
    settings: Mapping[str, Any],
    parameter: str,
    epochs: int,
    *,
    seconds: float = 600.0,
    python: str = sys.executable,
) -> Measured:
    """Run it with so many epochs, `parameter` of which says how many, for at most `seconds`.

    Raises TrialFailed with the last lines of a run that fails or is not over in time. Nothing
    that it starts is left, and nothing is written beside the notebook.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-hpc-trial-") as name:
        first = last = await _run(
            Path(name) / "1", notebook, conversion, runner, {**settings, parameter: 1},
            seconds, python,
        )  # fmt: skip
        if epochs > 1:
            left = seconds - first["seconds"]
            last = await _run(
                Path(name) / "2", notebook, conversion, runner, {**settings, parameter: epochs},
                left, python,
            )  # fmt: skip
    each, once = split(float(first["seconds"]), float(last["seconds"]), epochs)
    memory, gpu = (max(first[key], last[key]) for key in ("bytes", "gpu_bytes"))
    return Measured(epochs, float(last["seconds"]), each, once, memory, gpu)


def split(one: float, several: float, epochs: int) -> tuple[float, float]:
    """Seconds of an epoch, and of what is done once, from the times of two runs.

    Where the runs hardly differ, starting them differs as much: then all counts as epochs, so
    that too much is asked for and not too little.
    """
    if epochs < 2 or several - one < _SURE_SECONDS:
        return several / epochs, 0.0
    each = (several - one) / (epochs - 1)
    return each, max(0.0, several - epochs * each)


async def _run(
    folder: Path,
    notebook: Path,
    conversion: Conversion,
    runner: Runner,
    values: Mapping[str, Any],
    seconds: float,
    python: str,
) -> dict[str, Any]:
    copy = work_copy(folder / "tree", notebook, conversion, values)
    run = folder / "run"
    run.mkdir(parents=True)
    (run / "script.py").write_text(conversion.script, encoding="utf-8")
    (run / RUNTIME_FILE).write_text(shipped_source(RUNTIME_FILE), encoding="utf-8")
    (run / "parameters.json").write_text(json.dumps(dict(values)), encoding="utf-8")
    shipped = resources.files(f"{__package__}.shipped").joinpath("measure.py")
    (run / "measure.py").write_text(shipped.read_text("utf-8"), encoding="utf-8")
    (run / "checkpoints").mkdir()
    log = run / "log"
    settings = [f"JUPYTER_HPC_OUTPUT={run}", f"JUPYTER_HPC_CHECKPOINTS={run / 'checkpoints'}"]
    measured = [python, str(run / "measure.py"), f"{seconds:g}", str(log)]
    command = [*measured, python, str(run / "script.py")]
    command += ["--parameters", str(run / "parameters.json")]
    # A command runs where its runner runs, so the folder is changed on the way.
    enter = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(copy.folder)]
    done = await runner.run(
        [*enter, "env", *settings, *command], timeout=max(1.0, seconds) + _GRACE_SECONDS
    )
    try:
        result = dict(json.loads(done.stdout))
    except ValueError:
        result = {"code": done.returncode or 1}
    code = result["code"]
    if code == 0:
        return result
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else done.stderr
    lines = printable_lines("\n".join(text.splitlines()[-_LAST_LINES:]))
    if code is None:
        raise TrialFailed(
            f"The trial was not over after {_short(seconds)} and was ended. Its last lines:\n"
            f"{lines}",
            "Try fewer epochs, or give it more time.",
        )
    raise TrialFailed(
        f"The trial ended with code {code}. Its last lines:\n{lines}",
        "Run the notebook here once; it has to come to its end.",
    )


def _size(count: int) -> str:
    return f"{count / _GB:.1f} GB" if count >= _GB else f"{count / 10**6:.0f} MB"


def _short(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)
