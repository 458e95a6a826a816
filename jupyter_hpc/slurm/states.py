"""Job states: Slurm's words, and what they mean for somebody who waits for the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum


class Phase(Enum):
    """What a job state means for somebody who waits for the job."""

    PENDING = "pending"  #: in the queue; may start later
    STARTING = "starting"  #: has its nodes, which are being prepared
    RUNNING = "running"
    SUSPENDED = "suspended"  #: has its nodes, processes stopped
    ENDING = "ending"  #: processes are being ended
    ENDED = "ended"
    UNKNOWN = "unknown"  #: a word that this version does not know


_PHASES: Mapping[Phase, tuple[str, ...]] = {
    Phase.PENDING: (
        "PENDING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
        "EXPEDITING",
    ),
    Phase.STARTING: ("CONFIGURING", "POWER_UP_NODE"),
    Phase.RUNNING: ("RUNNING", "RESIZING", "SIGNALING", "UPDATE_DB"),
    Phase.SUSPENDED: ("SUSPENDED", "STOPPED"),
    Phase.ENDING: ("COMPLETING", "STAGE_OUT", "LAUNCH_FAILED", "RECONFIG_FAIL"),
    Phase.ENDED: (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ),
}
_PHASE_OF = {word: phase for phase, words in _PHASES.items() for word in words}

#: Short codes as `squeue %t` and some sites' wrappers print them.
_LONG_STATE = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "TO": "TIMEOUT",
}


def canonical_state(text: str) -> str:
    """The long word of a state as any Slurm command prints it; unknown words stay.

    sacct says "CANCELLED by 1000" and cuts long states with "+" in narrow columns;
    both are reduced to the first word.
    """
    word = text.strip().split(" ", 1)[0].rstrip("+").upper()
    return _LONG_STATE.get(word, word)


def phase_of(state: str) -> Phase:
    """What `state` means; a word of a newer Slurm gives Phase.UNKNOWN."""
    return _PHASE_OF.get(canonical_state(state), Phase.UNKNOWN)


class Stated:
    """A job, or whatever else has a state."""

    state: str

    @property
    def phase(self) -> Phase:
        return phase_of(self.state)


#: States of a step that explain the end of its job, the most telling first.
_TELLING = ("OUT_OF_MEMORY", "NODE_FAIL", "TIMEOUT", "PREEMPTED")


def telling_state(states: Iterable[str]) -> str:
    """The state that explains most of those of a job's steps; "" if none explains anything.

    A program is a step: what ended it is recorded there, of the job only that it failed.
    """
    found = {canonical_state(state) for state in states}
    return next((state for state in _TELLING if state in found), "")
