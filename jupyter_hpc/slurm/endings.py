"""How a job ended, in plain words, with its cause and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.slurm.states import canonical_state
from jupyter_hpc.text import printable


@dataclass(frozen=True)
class Ending:
    """How a job ended. `cause` is one of completed, time_limit, out_of_memory,
    cancelled, node_failure, preempted, failed."""

    text: str
    advice: str
    cause: str


_MEANT = "Start again if that was not meant."

_ENDINGS: Mapping[str, Ending] = {
    "COMPLETED": Ending("The job ended without an error.", "", "completed"),
    "TIMEOUT": Ending(
        "The job reached its time limit.",
        "Ask for more time, or save checkpoints and continue in a new job.",
        "time_limit",
    ),
    "DEADLINE": Ending(
        "The job could not end before its deadline.",
        "Submit it with a later deadline or a shorter time limit.",
        "time_limit",
    ),
    "OUT_OF_MEMORY": Ending(
        "The job used more memory than it had asked for, and was ended.",
        "Ask for more memory, or load less at once.",
        "out_of_memory",
    ),
    "NODE_FAIL": Ending(
        "A node of the job failed.",
        "Start again; it was not your program's fault.",
        "node_failure",
    ),
    "BOOT_FAIL": Ending(
        "The job's node could not be started.",
        "Start again; it was not your program's fault.",
        "node_failure",
    ),
    "PREEMPTED": Ending(
        "The job was ended to make room for one with a higher priority.",
        "Start again, or use a partition or QOS that is not preempted.",
        "preempted",
    ),
    "REVOKED": Ending(
        "The job was taken over by another cluster of the federation.",
        "Look for it there.",
        "cancelled",
    ),
    "CANCELLED": Ending(
        "The job was cancelled.", "Start again if that was not meant.", "cancelled"
    ),
    "FAILED": Ending("The job ended with an error.", "Look at the end of its log.", "failed"),
    "COMPLETING": Ending(
        "The job is being ended, and its node has not yet said that all of it is gone.",
        "In some minutes its record says why: sacct -X -j with its number.",
        "failed",
    ),
}


def explain_state(
    state: str,
    *,
    exit_code: int | None = None,
    signal: int | None = None,
    reason: str = "",
    cancelled_by: str | None = None,
    step_state: str = "",
) -> Ending:
    """How a job ended, with what its exit code, reason and steps add to the state."""
    word = canonical_state(state)
    if word == "FAILED" and step_state:
        word = step_state
    if word == "CANCELLED" and cancelled_by:
        return Ending(
            f"The job was cancelled by {printable(cancelled_by, 60)}.",
            _MEANT,
            "cancelled",
        )
    if word in ("FAILED", "CANCELLED", "COMPLETED", "COMPLETING", "NODE_FAIL"):
        special = _by_reason(reason)
        if special:
            return special
    if word == "FAILED":
        return _explain_failure(exit_code, signal)
    return _ENDINGS.get(word) or Ending(
        f"The job is in state {printable(word, 60)!r}.", "Ask the site's support.", "failed"
    )


def _by_reason(reason: str) -> Ending | None:
    if reason == "InactiveLimit":
        return Ending(
            "Slurm ended the job because nothing of it seemed active.",
            "This site ends allocations without a shell; use launch = sbatch.",
            "cancelled",
        )
    same = {"OutOfMemory": "OUT_OF_MEMORY", "NodeDown": "NODE_FAIL", "TimeLimit": "TIMEOUT"}
    if reason in same:
        return _ENDINGS[same[reason]]
    return None


def _explain_failure(exit_code: int | None, signal: int | None) -> Ending:
    if exit_code is None and signal is None:
        return _ENDINGS["FAILED"]
    code = exit_code or 0
    killed = signal or (code - 128 if 128 < code < 192 else 0)
    if signal == 125:
        return _ENDINGS["OUT_OF_MEMORY"]
    if signal == 53:
        return Ending(
            "The job could not start, because its working folder or log file cannot be written.",
            "Check that both paths exist on the compute node and that you may write there.",
            "failed",
        )
    if killed == 9:
        return Ending(
            "The job's program was killed (signal 9), most often for using too much memory.",
            "Compare the memory used with the memory asked for; ask for more if they are close.",
            "failed",
        )
    if killed == 11:
        return Ending(
            "The job's program crashed (segmentation fault).",
            "Look at the end of its log; a broken library or too little memory are common causes.",
            "failed",
        )
    if code == 127:
        return Ending(
            "The job called a command that does not exist on the node (exit code 127).",
            "Load the module or activate the environment that provides it.",
            "failed",
        )
    if code == 126:
        return Ending(
            "The job called a file that cannot be executed (exit code 126).",
            "Make it executable, or call it through its interpreter.",
            "failed",
        )
    detail = f"signal {killed}" if killed else f"exit code {code}"
    return Ending(f"The job ended with an error ({detail}).", _ENDINGS["FAILED"].advice, "failed")
