"""Why salloc or sbatch said no: which option is wrong, and what to change.

What is allowed instead is known only to the cluster; `Refusal.option` tells the
client what to look up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.text import printable

Option = Literal[
    "account",
    "array",
    "constraint",
    "cpus",
    "dependency",
    "gpus",
    "limits",
    "memory",
    "name",
    "nodes",
    "partition",
    "qos",
    "request",
    "reservation",
    "time",
    "",
]


@dataclass(frozen=True)
class Refusal:
    """One sentence, one piece of advice, and the part of the request it is about.

    `site` holds what was said besides: by the site's own plugin, which explains more
    than Slurm does, or about the limit that was hit.
    """

    text: str
    advice: str
    option: Option = ""
    site: str = ""


class _Known(NamedTuple):
    """What Slurm says, and what it means; `named` is `text` for a value that was asked for."""

    pattern: str
    text: str
    advice: str
    option: Option
    named: str = ""


# In the order in which they are looked for: the first that matches any line wins.
_KNOWN: tuple[_Known, ...] = (
    _Known(
        r"Invalid partition name specified|invalid partition specified|No partition specified",
        "There is no such partition, or none was given and the cluster has no default.",
        "Choose a partition of this cluster.",
        "partition",
        "There is no partition {}.",
    ),
    _Known(
        r"Invalid account or account/partition combination",
        "The account does not exist, is not yours, or may not use this partition.",
        "Choose one of your accounts.",
        "account",
        "The account {} does not exist, is not yours, or may not use this partition.",
    ),
    _Known(
        r"Please specify .*account|multiple .*(?:allocations|accounts)",
        "An account must be named, because you have more than one.",
        "Choose one of your accounts.",
        "account",
    ),
    _Known(
        r"Invalid qos specification",
        "The QOS does not exist or is not open to your account.",
        "Choose one of your QOS, or leave it out.",
        "qos",
        "The QOS {} does not exist or is not open to your account.",
    ),
    _Known(
        r"Invalid feature specification|Invalid --constraint",
        "No node has the features that the constraint names.",
        "Use the features that the cluster's nodes have.",
        "constraint",
        "No node has the features that the constraint {} names.",
    ),
    _Known(
        r"Invalid generic resource|Invalid GRES specification|Invalid Trackable RESource"
        r"|Invalid --g(?:res|pus)",
        "The cluster does not know GPUs of this name or in this spelling.",
        "Use a GPU type of this cluster, spelt exactly as it is listed.",
        "gpus",
        "The cluster does not know GPUs called {}.",
    ),
    _Known(
        r"Memory specification can not be satisfied|Memory required by task is not available"
        r"|Invalid --mem",
        "No node has as much memory as was asked for.",
        "Ask for less memory.",
        "memory",
        "No node has as much memory as {}.",
    ),
    _Known(
        r"Requested time limit is invalid|Time limit specification required|Invalid --time\b"
        r"|Invalid time-min",
        "The time limit is missing, not understood, or longer than allowed.",
        "Give a time limit within the partition's limit.",
        "time",
        "The time limit {} is not understood, or longer than allowed.",
    ),
    _Known(
        r"Job violates accounting/QOS policy|AssocMaxSubmitJobLimit|QOSMaxSubmitJobPerUserLimit",
        "A limit of your account or QOS does not allow this job (number of jobs, size or time).",
        "Wait until other jobs of yours have ended, ask for less, or use another QOS.",
        "limits",
    ),
    _Known(
        r"account has breached requested QOS usage threshold",
        "The account has used more than this QOS lets it.",
        "Use another QOS or account.",
        "qos",
        "The account has used more than the QOS {} lets it.",
    ),
    _Known(
        r"User's group not permitted to use this partition",
        "Your group may not use this partition.",
        "Choose another partition.",
        "partition",
        "Your group may not use the partition {}.",
    ),
    _Known(
        r"(?:Required )?[Pp]artition (?:not available|in DOWN state)"
        r"|Required partition not available",
        "The partition is closed at the moment.",
        "Choose another partition, or try again when the site has opened it.",
        "partition",
        "The partition {} is closed at the moment.",
    ),
    _Known(
        r"CPU count (?:per node|specification)|More processors requested than permitted"
        r"|Requested more tasks than available|Task count specification invalid"
        r"|Invalid numeric value .*(?:cpus|ntasks)",
        "The number of CPUs or tasks cannot be had.",
        "Ask for fewer CPUs or tasks.",
        "cpus",
    ),
    _Known(
        r"Node count specification invalid|Invalid --nodes|Requested nodes not in this partition"
        r"|Invalid node name specified",
        "The number or the names of nodes cannot be had in this partition.",
        "Ask for other nodes, or only for their number.",
        "nodes",
    ),
    _Known(
        r"Requested node configuration is not available|Requested nodes are busy",
        "No node of the partition has what was asked for "
        "(GPUs of this type and number, CPUs and memory together).",
        "Ask for what one node of the partition has, or choose another partition.",
        "request",
    ),
    _Known(
        r"reservation",
        "The reservation does not exist, is not yours, or is not open now.",
        "Leave the reservation out or use another.",
        "reservation",
    ),
    _Known(
        r"Invalid job array specification|Invalid --array",
        "The list of array tasks is not understood or longer than the site allows.",
        "Use fewer tasks, or a list such as 1-12%3.",
        "array",
    ),
    _Known(
        r"Job dependency problem|Circular job dependency|Invalid --dependency",
        "The dependency names a job that does not exist, or is not understood.",
        "Check the job ids in it.",
        "dependency",
    ),
    _Known(
        r"unrecognized option|invalid option|doesn't allow an argument|requires an argument"
        r"|Invalid --[\w-]+ specification|Invalid numeric value",
        "An option is not known to this version of Slurm, or its value is not understood.",
        "Check the extra options of the profile or the command line.",
        "",
    ),
    _Known(
        r"System submissions disabled|Requested operation is presently disabled",
        "The site accepts no new jobs at the moment.",
        "Look at the site's announcements and try again later.",
        "",
    ),
    _Known(
        r"Access/permission denied|Invalid user id|User not found on host",
        "Your user may not submit jobs here.",
        "Ask the site's support whether your account is active.",
        "",
    ),
    _Known(
        r"Pathname .* too long|I/O error writing script|Script arguments|batch script",
        "The script could not be taken over by Slurm.",
        "Check that it starts with #! and is not too large.",
        "",
    ),
    _Known(
        r"Connection timed out|Job can not start immediately|Immediate execution impossible",
        "The resources were not free within the time that was given.",
        "Try again without that limit, and the job waits in the queue.",
        "",
    ),
)

_PREFIX = re.compile(r"^(?:\w+: )?(?:error: |fatal: )?")
_VERDICT = re.compile(
    r"(?:Batch job submission failed|Job submit/allocate failed|Unable to allocate resources"
    r"|allocation failure): (?P<why>.*)"
)
#: Lines of Slurm's own that add nothing a person could use.
_NOISE = re.compile(r'Try "\w+ --help"|invalid partition specified|Memory specification can not')


def _said(line: str) -> str:
    """A site's line, or the words for it where Slurm printed the code of a limit."""
    explanation = explain_reason(line) if re.fullmatch(r"\w+", line) else None
    return explanation.text if explanation and explanation.known else line


def _value(request: Request, option: Option) -> str | None:
    """What was asked for, where it is one word that can be right or wrong."""
    return {
        "partition": request.partition,
        "account": request.account,
        "qos": request.qos,
        "constraint": request.constraint,
        "gpus": request.gpu_type,
        "memory": request.memory,
        "time": request.time,
    }.get(option)


def explain_refusal(said: str, request: Request | None = None) -> Refusal:
    """Read the error lines of salloc or sbatch, with or without their prefixes.

    With the request, the sentence names the value that was refused.
    """
    lines = [_PREFIX.sub("", line.strip()) for line in said.splitlines() if line.strip()]
    verdict = next((found["why"] for line in lines if (found := _VERDICT.search(line))), "")
    plugin = [line for line in lines if not _VERDICT.search(line) and not _NOISE.search(line)]
    for pattern, text, advice, option, named in _KNOWN:
        if any(re.search(pattern, line) for line in lines):
            value = _value(request, option) if request is not None else None
            if named and value:
                text = named.format(repr(printable(value, 60)))
            site = [] if verdict == "" else [_said(line) for line in plugin if line != verdict]
            if option == "" and not verdict:
                text = f"{text[:-1]}: {printable(lines[0], 200)}."
            return Refusal(text, advice, option, printable(" ".join(site), 500))
    reason = printable(verdict or " ".join(plugin), 300) or "no reason was given"
    return Refusal(
        f"Slurm refused the job: {reason}.",
        "Ask the site's support with this sentence.",
        "",
        printable(" ".join(plugin), 500) if verdict else "",
    )
