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


@dataclass(frozen=True)
class _Waits(Explanation):
    advice: str = _WAIT


@dataclass(frozen=True)
class _Stuck(Explanation):
    advice: str = _CHANGE
    stuck: bool = True


@dataclass(frozen=True)
class _Never(_Stuck):
    never: bool = True


#: The reason of a job that its owner, or the job itself, has put on hold.
HELD_BY_USER = "JobHeldUser"

_REASONS: Mapping[str, Explanation] = {
    "None": _Waits("Slurm has not looked at this job yet.", "Wait a few seconds."),
    "Priority": _Waits("Jobs with a higher priority are ahead of this one.", _SMALLER),
    "Resources": _Waits(
        "It is next in line and waits until enough nodes, CPUs, memory or GPUs are free.", _SMALLER
    ),
    "Dependency": _Waits("It waits for another job that it depends on."),
    "DependencyNeverSatisfied": _Never(
        "The job it depends on ended in a way that can never let it start.",
        "Cancel it, or remove the dependency and submit again.",
    ),
    "BeginTime": _Waits(
        "It may not start before its begin time; after a requeue Slurm sets one about two "
        "minutes ahead."
    ),
    HELD_BY_USER: _Stuck(
        "It is on hold, by you or by the job itself.", "Release it when it may start."
    ),
    "JobHeldAdmin": _Stuck("An administrator has put it on hold.", _SITE),
    "JobHoldMaxRequeue": _Stuck(
        "It was requeued too often and is on hold.",
        "Look at its log for what makes it fail, then release it.",
    ),
    "launch_failed_requeued_held": _Stuck(
        "It failed to start on its node, was put back in the queue and is on hold.",
        "Release it to try again; if that fails as well, ask the site's support.",
    ),
    "job_requeued_in_held_state": _Stuck(
        "It was put back in the queue and is on hold.", "Release it when it may start."
    ),
    "JobArrayTaskLimit": _Waits(
        "As many tasks of this array run as its %limit allows.",
        "The next one starts when one of them ends.",
    ),
    "PartitionTimeLimit": _Never("Its time limit is longer than the partition allows."),
    "PartitionNodeLimit": _Stuck(
        "It asks for more or fewer nodes than the partition allows, or its nodes are down.",
    ),
    "PartitionConfig": _Stuck(
        "The partition cannot give what it asks for (for instance more CPUs than a node has)."
    ),
    "PartitionDown": _Waits("The partition is closed for new starts.", _SITE),
    "PartitionInactive": _Waits("The partition is switched off.", _SITE),
    "ReqNodeNotAvail": _Waits(
        "A node that it needs is down, drained or reserved, often for maintenance.",
        "A time limit that ends before the maintenance can start now; else wait or name no node.",
    ),
    "Reservation": _Waits("It waits for its reservation to begin."),
    "ReservationDeleted": _Never("Its reservation was deleted."),
    "ReservationInvalid": _Never("Its reservation is not valid."),
    "Licenses": _Waits("It waits for a software licence that other jobs hold."),
    "NodeDown": _Waits("A node that it needs is down."),
    "BadConstraints": _Never("No node of this cluster has what it asks for."),
    "Constraints": _Never("No node of this cluster has what it asks for."),
    "MaxMemPerLimit": _Never("It asks for more memory per CPU or node than the partition allows."),
    "InvalidAccount": _Never("Its account is not valid any more.", "Choose another account."),
    "InvalidQOS": _Never("Its QOS is not valid any more.", "Choose another QOS."),
    "AccountNotAllowed": _Never(
        "Its account may not use this partition.", "Choose another account or partition."
    ),
    "QOSNotAllowed": _Never(
        "Its QOS may not be used with this partition or account.",
        "Choose another QOS, partition or account.",
    ),
    "QOSUsageThreshold": _Stuck(
        "Its account has used more than the QOS lets it.", "Choose another QOS or account."
    ),
    "AccountingPolicy": _Stuck("A limit of its account or QOS does not allow it.", _SITE),
    "AssociationJobLimit": _Waits("Its account has as many jobs running as it may."),
    "AssociationResourceLimit": _Waits("Its account uses as much as it may at once."),
    "AssociationTimeLimit": _Stuck("Its account has used up its time."),
    "QOSJobLimit": _Waits("Its QOS has as many jobs running as it may."),
    "QOSResourceLimit": _Waits("Its QOS uses as much as it may at once."),
    "QOSTimeLimit": _Stuck("Its QOS has used up its time."),
    "Prolog": _Waits("Its node is being prepared."),
    "Cleaning": _Waits("Its last run is still being cleaned up after a requeue."),
    "BurstBufferResources": _Waits("It waits for space in the burst buffer."),
    "BurstBufferStageIn": _Waits("Its data is being copied to the burst buffer."),
    "BurstBufferOperation": _Stuck("An operation on its burst buffer failed."),
    "FrontEndDown": _Waits("The front-end node is down.", _SITE),
    "SchedDefer": _Waits("It asked to start at once, which Slurm puts off on this site."),
    "SystemFailure": _Stuck("Slurm or its network or file system failed.", _SITE),
    "JobLaunchFailure": _Stuck(
        "It could not be started: a path may be wrong or a node broken.",
        "Check the working folder and the log path, then submit again.",
    ),
    "FedJobLock": _Waits("It waits for another cluster of the federation to answer."),
    "PowerNotAvail": _Waits("There is not enough power for it now."),
    "PowerReserved": _Waits("Power is reserved for other jobs now."),
    "NvidiaImexChannels": _Waits("It waits for a free NVIDIA IMEX channel."),
    "DeadLine": _Never("It cannot end before its deadline any more."),
    "InactiveLimit": _Stuck(
        "Slurm ended it because nothing of it seemed active.",
        "This site ends allocations without a shell; use launch = sbatch.",
    ),
    "TimeLimit": _Stuck("It reached its time limit.", "Ask for more time."),
    "NonZeroExitCode": _Stuck("It ended with an error.", "Look at its log."),
    "OutOfMemory": _Stuck("It used more memory than it asked for.", "Ask for more memory."),
    "RaisedSignal": _Stuck("It was ended by a signal.", "Look at its log."),
}
# Slurm matches nothing here by case, and older releases spelt some differently.
_BY_LOWER = {key.lower(): value for key, value in _REASONS.items()}

#: Sentences that Slurm puts in place of a code.
_SENTENCES: tuple[tuple[re.Pattern[str], Explanation], ...] = (
    (
        re.compile(r"nodes required for job are down, drained or reserved", re.I),
        _Waits(
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
        return _Waits(
            f"More jobs are queued than {whose} permission for.",
            "Wait until some have ended, or cancel some.",
        )
    if thing.startswith("wall") and kind == "max":
        return _Never(f"Its time limit is longer than its {owner} allows for one job.")
    if thing.startswith("wall") or (kind == "grp" and span in ("minutes", "mins")):
        return _Stuck(
            f"Its {owner} has used up its budget of time.",
            f"Look at the budget, use another {other}, or ask the project's owner for more.",
        )
    if thing.startswith("job"):
        whose = "You have" if per == "user" else f"Its {owner} has"
        return _Waits(
            f"{whose} as many jobs running as allowed.", "It starts when one of them ends."
        )
    what = _THINGS[thing]
    if span.startswith("run"):
        return _Waits(
            f"Running jobs of its {owner} have reserved all the {what} time allowed at once.",
            "It starts when they are nearer their end; a shorter time limit helps.",
        )
    if kind == "min":
        return _Never(f"It asks for fewer {what} than its {owner} requires.")
    if per in ("job", "node") or span or (kind == "max" and not per):
        unit = "one node" if per == "node" else "one job"
        time = " time" if span else ""
        return _Never(f"It asks for more {what}{time} than its {owner} allows for {unit}.")
    if per == "user":
        return _Waits(
            f"Your running jobs use all the {what} that one user may have under its {owner}.",
            f"It starts when one of them ends; another {other} may have room.",
        )
    return _Waits(
        f"The running jobs of its {owner} use all the {what} that they may have together.",
        f"It starts when one of them ends; another {other} may have room.",
    )
