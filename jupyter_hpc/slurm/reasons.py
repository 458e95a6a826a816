"""Why a job waits and (from endings.py) how it ended, in words, with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.slurm.endings import Ending as Ending
from jupyter_hpc.slurm.endings import explain_state as explain_state
from jupyter_hpc.text import printable


@dataclass(frozen=True)
class Explanation:
    """One sentence about the cause, one about what to do.

    `stuck` means that waiting alone will not help: somebody has to change something.
    `never`: not somebody else, a budget or a hold, but the request itself is what has to change.
    `known` is false for a code that this version has no words for.
    """

    text: str
    advice: str
    stuck: bool = False
    known: bool = True
    never: bool = False


_WAIT = "Nothing to do: it starts by itself."
_SMALLER = "A smaller request (shorter time, fewer GPUs or CPUs, less memory) can start sooner."
_CHANGE = "Cancel it and submit again with a request that fits."
_ONE_ENDS = "It starts when one of them ends."
_SITE = "Ask the site's support."


def _waits(text: str, advice: str = _WAIT) -> Explanation:
    return Explanation(text, advice)


def _stuck(text: str, advice: str = _CHANGE) -> Explanation:
    return Explanation(text, advice, stuck=True)


def _never(text: str, advice: str = _CHANGE) -> Explanation:
    return Explanation(text, advice, stuck=True, never=True)


#: The reason of a job that its owner, or the job itself, has put on hold.
HELD_BY_USER = "JobHeldUser"

_REASONS: Mapping[str, Explanation] = {
    "None": _waits("Slurm has not looked at this job yet.", "Wait a few seconds."),
    "Priority": _waits("Jobs with a higher priority are ahead of this one.", _SMALLER),
    "Resources": _waits(
        "It is next in line and waits until enough nodes, CPUs, memory or GPUs are free.", _SMALLER
    ),
    "Dependency": _waits("It waits for another job that it depends on."),
    "DependencyNeverSatisfied": _never(
        "The job it depends on ended in a way that can never let it start.",
        "Cancel it, or remove the dependency and submit again.",
    ),
    "BeginTime": _waits(
        "It may not start before its begin time; after a requeue Slurm sets one about two "
        "minutes ahead."
    ),
    HELD_BY_USER: _stuck(
        "It is on hold, by you or by the job itself.", "Release it when it may start."
    ),
    "JobHeldAdmin": _stuck("An administrator has put it on hold.", _SITE),
    "JobHoldMaxRequeue": _stuck(
        "It was requeued too often and is on hold.",
        "Look at its log for what makes it fail, then release it.",
    ),
    "launch_failed_requeued_held": _stuck(
        "It failed to start on its node, was put back in the queue and is on hold.",
        "Release it to try again; if that fails as well, ask the site's support.",
    ),
    "job_requeued_in_held_state": _stuck(
        "It was put back in the queue and is on hold.", "Release it when it may start."
    ),
    "JobArrayTaskLimit": _waits(
        "As many tasks of this array run as its %limit allows.",
        "The next one starts when one of them ends.",
    ),
    "PartitionTimeLimit": _never("Its time limit is longer than the partition allows."),
    "PartitionNodeLimit": _stuck(
        "It asks for more or fewer nodes than the partition allows, or its nodes are down.",
    ),
    "PartitionConfig": _stuck(
        "The partition cannot give what it asks for (for instance more CPUs than a node has)."
    ),
    "PartitionDown": _waits("The partition is closed for new starts.", _SITE),
    "PartitionInactive": _waits("The partition is switched off.", _SITE),
    "ReqNodeNotAvail": _waits(
        "A node that it needs is down, drained or reserved, often for maintenance.",
        "A time limit that ends before the maintenance can start now; else wait or name no node.",
    ),
    "Reservation": _waits("It waits for its reservation to begin."),
    "ReservationDeleted": _never("Its reservation was deleted."),
    "ReservationInvalid": _never("Its reservation is not valid."),
    "Licenses": _waits("It waits for a software licence that other jobs hold."),
    "NodeDown": _waits("A node that it needs is down."),
    "BadConstraints": _never("No node of this cluster has what it asks for."),
    "Constraints": _never("No node of this cluster has what it asks for."),
    "MaxMemPerLimit": _never("It asks for more memory per CPU or node than the partition allows."),
    "InvalidAccount": _never("Its account is not valid any more.", "Choose another account."),
    "InvalidQOS": _never("Its QOS is not valid any more.", "Choose another QOS."),
    "AccountNotAllowed": _never(
        "Its account may not use this partition.", "Choose another account or partition."
    ),
    "QOSNotAllowed": _never(
        "Its QOS may not be used with this partition or account.",
        "Choose another QOS, partition or account.",
    ),
    "QOSUsageThreshold": _stuck(
        "Its account has used more than the QOS lets it.", "Choose another QOS or account."
    ),
    "AccountingPolicy": _stuck("A limit of its account or QOS does not allow it.", _SITE),
    "AssociationJobLimit": _waits("Its account has as many jobs running as it may."),
    "AssociationResourceLimit": _waits("Its account uses as much as it may at once."),
    "AssociationTimeLimit": _stuck("Its account has used up its time."),
    "QOSJobLimit": _waits("Its QOS has as many jobs running as it may."),
    "QOSResourceLimit": _waits("Its QOS uses as much as it may at once."),
    "QOSTimeLimit": _stuck("Its QOS has used up its time."),
    "Prolog": _waits("Its node is being prepared."),
    "Cleaning": _waits("Its last run is still being cleaned up after a requeue."),
    "BurstBufferResources": _waits("It waits for space in the burst buffer."),
    "BurstBufferStageIn": _waits("Its data is being copied to the burst buffer."),
    "BurstBufferOperation": _stuck("An operation on its burst buffer failed."),
    "FrontEndDown": _waits("The front-end node is down.", _SITE),
    "SchedDefer": _waits("It asked to start at once, which Slurm puts off on this site."),
    "SystemFailure": _stuck("Slurm or its network or file system failed.", _SITE),
    "JobLaunchFailure": _stuck(
        "It could not be started: a path may be wrong or a node broken.",
        "Check the working folder and the log path, then submit again.",
    ),
    "FedJobLock": _waits("It waits for another cluster of the federation to answer."),
    "PowerNotAvail": _waits("There is not enough power for it now."),
    "PowerReserved": _waits("Power is reserved for other jobs now."),
    "NvidiaImexChannels": _waits("It waits for a free NVIDIA IMEX channel."),
    "DeadLine": _never("It cannot end before its deadline any more."),
    "InactiveLimit": _stuck(
        "Slurm ended it because nothing of it seemed active.",
        "This site ends allocations without a shell; use launch = sbatch.",
    ),
    "TimeLimit": _stuck("It reached its time limit.", "Ask for more time."),
    "NonZeroExitCode": _stuck("It ended with an error.", "Look at its log."),
    "OutOfMemory": _stuck("It used more memory than it asked for.", "Ask for more memory."),
    "RaisedSignal": _stuck("It was ended by a signal.", "Look at its log."),
}
# Slurm matches nothing here by case, and older releases spelt some differently.
_BY_LOWER = {key.lower(): value for key, value in _REASONS.items()}

#: Sentences that Slurm puts in place of a code.
_SENTENCES: tuple[tuple[re.Pattern[str], Explanation], ...] = (
    (
        re.compile(r"nodes required for job are down, drained or reserved", re.I),
        _waits(
            "The nodes it needs are down, drained or reserved for jobs in higher priority "
            "partitions.",
            "Wait, or choose another partition.",
        ),
    ),
    (
        re.compile(r"ReqNodeNotAvail", re.I),
        _REASONS["ReqNodeNotAvail"],
    ),
    (
        re.compile(r"requeued in held state", re.I),
        _REASONS["job_requeued_in_held_state"],
    ),
    (re.compile(r"launch failed requeued held", re.I), _REASONS["launch_failed_requeued_held"]),
)

_THINGS = {
    "cpu": "CPUs",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "gres": "GPUs",
    "energy": "energy",
    "license": "licences",
    "bb": "burst buffer space",
    "billing": "budget units",
    "unknown": "resources",
}
_LIMIT = re.compile(
    r"(?P<who>Assoc|QOS|)(?P<kind>Grp|Max|Min)"
    r"(?P<thing>Cpu|Memory|Mem|Node|GRES|Energy|License|BB|Billing|Unknown"
    r"|SubmitJobs?|Jobs?|WallDuration|Wall)"
    r"(?P<span>RunMinutes|RunMins|Minutes|Mins)?"
    r"(?P<per>Per(?:Job|Node|User|Account))?(?:Limit|NotSatisfied)?",
    re.I,
)


def explain_reason(code: str) -> Explanation:
    """Why a pending job waits. `code` is squeue's reason, a word or a sentence.

    An unknown one is repeated as it is, cleaned, with where to ask.
    """
    word = code.strip().strip("()")
    known = _BY_LOWER.get(word.lower() or "none")
    if known:
        return known
    limit = _LIMIT.fullmatch(word)
    if limit:
        return _explain_limit(limit)
    # "ReqNodeNotAvail, UnavailableNodes:gpu01" and the like carry a code in front
    head = _BY_LOWER.get(re.split(r"[,:(]", word, maxsplit=1)[0].strip().lower())
    sentence = next(
        (explanation for pattern, explanation in _SENTENCES if pattern.search(word)), None
    )
    return (
        sentence
        or head
        or Explanation(f"Slurm gives the reason {printable(word, 200)!r}.", _SITE, known=False)
    )


def _explain_limit(limit: re.Match[str]) -> Explanation:
    """The several hundred codes of account and QOS limits follow one grammar."""
    kind, span = limit["kind"].lower(), (limit["span"] or "").lower()
    per = (limit["per"] or "").lower().removeprefix("per")
    thing = limit["thing"].lower()
    qos = limit["who"].lower() != "assoc"
    owner, other = ("QOS", "QOS") if qos else ("account", "account")
    if per == "account":
        owner, other = "account under this QOS", "account or QOS"
    if thing.startswith("submit"):
        whose = "you have" if per == "user" or kind == "max" else f"its {owner} has"
        return _waits(
            f"More jobs are queued than {whose} permission for.",
            "Wait until some have ended, or cancel some.",
        )
    if thing.startswith("wall") and kind == "max":
        return _never(f"Its time limit is longer than its {owner} allows for one job.")
    if thing.startswith("wall") or (kind == "grp" and span in ("minutes", "mins")):
        return _stuck(
            f"Its {owner} has used up its budget of time.",
            f"Look at the budget, use another {other}, or ask the project's owner for more.",
        )
    if thing.startswith("job"):
        whose = "You have" if per == "user" else f"Its {owner} has"
        return _waits(
            f"{whose} as many jobs running as allowed.", "It starts when one of them ends."
        )
    what = _THINGS[thing]
    if span.startswith("run"):
        return _waits(
            f"Running jobs of its {owner} have reserved all the {what} time allowed at once.",
            "It starts when they are nearer their end; a shorter time limit helps.",
        )
    if kind == "min":
        return _never(f"It asks for fewer {what} than its {owner} requires.")
    if per in ("job", "node") or span or (kind == "max" and not per):
        unit = "one node" if per == "node" else "one job"
        time = " time" if span else ""
        return _never(f"It asks for more {what}{time} than its {owner} allows for {unit}.")
    if per == "user":
        return _waits(
            f"Your running jobs use all the {what} that one user may have under its {owner}.",
            f"It starts when one of them ends; another {other} may have room.",
        )
    return _waits(
        f"The running jobs of its {owner} use all the {what} that they may have together.",
        f"It starts when one of them ends; another {other} may have room.",
    )
