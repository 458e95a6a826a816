"""What a trial has measured: how long and how large the whole run would be, or why nobody knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.batch.runs.log_endings import EXCEPTION, recognised
from jupyter_hpc.errors import HpcError
from jupyter_hpc.slurm.units import format_walltime
from jupyter_hpc.text import duration, printable, printable_lines

#: What is asked for beyond what was measured: other nodes and other hours are slower.
MARGIN = 0.3
_LAST_LINES = 15
_LEAST_SECONDS = 300
#: Two runs that differ by less than this differ by chance.
_SURE_SECONDS = 3.0
_GB = 10**9
IN_SESSION = "Try it in a session with more memory, or with a smaller batch."
IN_JOB = "Ask for more with --mem, or take a smaller batch."
#: How a process ends that the system has killed.
_KILLED = (-9, 137)


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

    def memory_request(self, processes: int = 1) -> str:
        """Memory to ask for, with the margin, for so many processes on a node."""
        return f"{max(1, math.ceil(self.memory * processes * (1 + MARGIN) / _GB))}G"

    def parts(self, epochs: int, part_seconds: int) -> int:
        """So many parts of that length hold all epochs, with the margin; 0: none holds one."""
        room = part_seconds / (1 + MARGIN) - self.once
        in_a_part = math.floor(room / self.epoch) if self.epoch > 0 else epochs
        return math.ceil(epochs / in_a_part) if in_a_part > 0 else 0

    def sentence(self, epochs: int) -> str:
        """What was measured, and what that means for all epochs."""
        gpu = f", {_size(self.gpu_memory)} on the GPU" if self.gpu_memory else ""
        asked = f"asked for is {MARGIN:.0%} more"
        if self.whole(epochs) * (1 + MARGIN) < _LEAST_SECONDS:
            asked += f", and {duration(_LEAST_SECONDS)} at least"
        return (
            f"Trial: {self.epochs} epoch{'s' * (self.epochs > 1)} in {_short(self.seconds)} "
            f"({_short(self.epoch)} each, {_short(self.once)} once), "
            f"{_size(self.memory)} of memory{gpu}. "
            f"All {epochs} would take {_short(self.whole(epochs))}; {asked}."
        )


@dataclass(frozen=True)
class Filled:
    """What a trial says to the fields of a job."""

    #: In Slurm's spelling; of a chain that of each part.
    time: str
    memory: str
    #: Parts of a chain; None where one run holds all epochs.
    chain: int | None


def fill(
    measured: Measured,
    epochs: int,
    *,
    processes: int = 1,
    unit: int | None = None,
    longest: int | None = None,
) -> Filled:
    """Time, memory and parts for so many epochs.

    `unit` are the seconds of a part that were asked for; `longest` are those that no job of the
    cluster may exceed, which makes parts of a longer run. TrialFailed if no part holds an epoch.
    """
    memory = measured.memory_request(processes)
    whole = measured.time_limit(epochs)
    part = unit or longest
    if part is None or (unit is None and whole <= part):
        return Filled(format_walltime(whole), memory, None)
    parts = measured.parts(epochs, part)
    if not parts:
        raise TrialFailed(
            f"One epoch took {_short(measured.epoch)} in the trial, and with {MARGIN:.0%} to spare "
            f"it does not fit into one part of {duration(part)}.",
            "Ask for longer parts, or save within an epoch.",
        )
    if parts == 1:
        return Filled(format_walltime(min(part, whole)), memory, None)
    return Filled(format_walltime(part), memory, parts)


def read_result(
    result: Mapping[str, Any], seconds: float, log: str = "", more_memory: str = IN_SESSION
) -> Measured:
    """What shipped/trial.py has written, or `log` where it has not; TrialFailed says why.

    `more_memory` is what to do where there was too little of it.
    """
    if result.get("busy"):
        raise TrialFailed(
            "Another trial of yours runs in this session, and two at once would measure each "
            "other.",
            "Wait for its end, or end it, and try again.",
        )
    runs = list(result.get("runs") or ())
    if not runs:
        raise TrialFailed(
            f"The trial did not begin.{_lines(log)}",
            "What it needs is the Python of the job: look at the job's environment.",
        )
    last = runs[-1]
    done = [run for run in runs if run["code"] == 0 and not run["why"]]
    # One epoch was measured; that more of them were not over in time says nothing against it.
    if last["code"] != 0 and not (done and last["why"] == "time"):
        raise _failure(last, seconds, more_memory)
    first, best = done[0], done[-1]
    each, once = split(float(first["seconds"]), float(best["seconds"]), int(best["epochs"]))
    memory, gpu = (max(int(run[key]) for run in runs) for key in ("bytes", "gpu_bytes"))
    return Measured(int(best["epochs"]), float(best["seconds"]), each, once, memory, gpu)


def split(one: float, several: float, epochs: int) -> tuple[float, float]:
    """Seconds of an epoch, and of what is done once, from the times of two runs.

    Where the runs hardly differ, starting them differs as much: then all counts as epochs, so
    that too much is asked for and not too little.
    """
    if epochs < 2 or several - one < _SURE_SECONDS:
        return several / epochs, 0.0
    each = (several - one) / (epochs - 1)
    return each, max(0.0, several - epochs * each)


def _failure(run: Mapping[str, Any], seconds: float, more_memory: str) -> TrialFailed:
    log, why, held = str(run.get("log", "")), run["why"], _size(int(run["bytes"]))
    if why == "folder":
        return TrialFailed(
            f"The folder of the trial could not be made: {printable(log, 400)}",
            "Is the disk full? TMPDIR names another place for it.",
        )
    if why == "memory":
        return TrialFailed(
            f"The trial was ended because it held {held} of memory, and the session has no more.",
            more_memory,
        )
    if why == "time":
        epochs = "One epoch was" if run["epochs"] == 1 else f"{run['epochs']} epochs were"
        return TrialFailed(
            f"{epochs} not over after {_short(seconds)}, and the trial was ended.{_lines(log)}",
            "Give it more time, or try it with less data.",
        )
    if why == "ended":
        return TrialFailed("The trial was ended before it was over.", "")
    code = run["code"]
    if code in _KILLED:
        return TrialFailed(
            f"The program of the trial was killed when it held {held}, as the system does where "
            f"memory is short.{_lines(log)}",
            more_memory,
        )
    found = recognised(log, code=code)
    cause = found.text if found else f"The program of the trial ended with code {code}."
    hint = found.advice if found and found.cause != EXCEPTION else ""
    if found and found.cause == "out_of_memory":
        hint = more_memory
    return TrialFailed(
        f"{cause}{_lines(log)}", hint or "Run the notebook here once; it has to come to its end."
    )


def _lines(log: str) -> str:
    """The end of a log, below a sentence."""
    told = [line for line in log.splitlines() if line.strip()]
    # That a parameter is another one is what a trial is about.
    lines = [line for line in told if not line.startswith("[jupyter-hpc] parameter ")][
        -_LAST_LINES:
    ]
    return f" Its last lines:\n{printable_lines(chr(10).join(lines))}" if lines else ""


def _size(count: int) -> str:
    return f"{count / _GB:.1f} GB" if count >= _GB else f"{count / 10**6:.0f} MB"


def _short(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)
