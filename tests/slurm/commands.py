"""The conformance table: every Slurm command and option that the product uses.

Each entry is an example built by the product's own argv builders. The checks in
tests/slurm/checks exercise all of them on a real Slurm and on the embedded cluster
(test_conformance.py); `unlisted` finds what a test run used beyond the table.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jupyter_hpc.slurm import (
    accounting,
    allocate,
    associations,
    inventory,
    jobcontrol,
    jobstats,
    jobtext,
    occupancy,
    queue,
    showjob,
    sstat,
    submit,
)
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.submit import BatchOptions

#: Programs that belong to Slurm, whether the product uses them or not.
PROGRAMS = frozenset(
    {
        *("sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol"),
        *("scrontab", "sdiag", "seff", "sinfo", "sprio", "squeue", "sreport", "srun", "sshare"),
        *("sstat", "strigger"),
    }
)

#: Commands whose first words name what they do.
_KEYWORDS = {"scontrol": {"show": 2}, "sacctmgr": {"show": 2}}

#: Programs that take a command or a script after their options.
_STARTERS = frozenset({"salloc", "sbatch", "srun"})

#: An option whose name starts like this is a mistake that a test makes on purpose.
DELIBERATE_MISTAKE = "--no-such"

_EVERYTHING = Request(
    name="name", partition="cpu", account="research", qos="normal", constraint="a100", time="10",
    nodes=1, tasks=1, tasks_per_node=1, cpus=1, memory="1G", reservation="none", comment="text",
    extra=("--exclusive",),
)  # fmt: skip

_BATCH = BatchOptions(
    output="out", error="err", work_dir="/tmp", array="1-4%2", signal="B:USR1@60",
    dependency="afterok:1", requeue=True, open_append=True, begin="now+1hour", export="ALL",
    mail_type="NONE", mail_user="nobody", hold=True,
)  # fmt: skip


def _gpus(flag: str) -> Request:
    return Request(gpus=1, gpu_type="a100", gpu_flag=flag)


#: One example for every way in which the product calls Slurm, and for what its checks ask besides.
TABLE: tuple[Sequence[str], ...] = (
    queue.jobs_argv(name="name", ids=["1"], every_task=True, ended=True),
    queue.start_argv(["1"]),
    showjob.show_job_argv("1"),
    showjob.show_nodes_argv("1"),
    allocate.config_argv(),
    accounting.history_argv(3600),
    accounting.finished_argv(["1"]),
    jobstats.comment_argv("1"),
    sstat.usage_argv("1"),
    inventory.partitions_argv(),
    inventory.groups_argv(),
    occupancy.use_argv(),
    associations.associations_argv("user"),
    associations.qos_argv(),
    associations.shares_argv(),
    jobcontrol.cancel_argv(["1"]),
    jobcontrol.hold_argv(["1"]),
    jobcontrol.release_argv(["1"]),
    jobcontrol.requeue_argv(["1"]),
    jobcontrol.rename_argv("1", "name"),
    *(allocate.salloc_argv(request) for request in (_EVERYTHING, *map(_gpus, ("gpus", "gres")))),
    allocate.salloc_argv(_gpus("gpus-per-node")),
    allocate.step_argv(
        "1", ["true"], unbuffered=True, quiet=True, node="n", gpus=0, output="none", name="name"
    ),
    *(allocate.step_argv("1", ["true"], gpus=1, release=each) for each in ((22, 5), (24, 11))),
    *(submit.sbatch_argv(_gpus(flag)) for flag in ("gpus", "gres", "gpus-per-node")),
    submit.sbatch_argv(_EVERYTHING, _BATCH, script="file", arguments=["argument"]),
    submit.sbatch_argv(_EVERYTHING, BatchOptions(requeue=False), test_only=True),
    ["sinfo", "--version"],
    ["srun", "--version"],
    # inside our batch scripts
    ["sh", "-c", jobtext.RENDEZVOUS],
    *(["sh", "-c", jobtext.step(ranked=ranked, beside=ranked)] for ranked in (False, True)),
    *(["sh", "-c", jobtext.on_every_node(beside=beside)] for beside in (False, True)),
    ["sh", "-c", jobtext.cancel_tail(2)],
    ["sh", "-c", jobtext.hold_tail(2)],
    ["sh", "-c", jobtext.requeue("1")],
    ["sh", "-c", jobtext.hold("1")],
    # not ours, but typed by people, also on the embedded cluster
    ["scancel", "--signal=USR1", "--batch", "1"],
    ["scontrol", "update", "JobId=1", "TimeLimit=5"],
    ["sinfo", "--noheader", "--Node", "--Format=NodeHost,StateLong,CPUsState,GresUsed"],
)


@dataclass(frozen=True)
class Signature:
    """A command with the options, fields and keywords it was called with."""

    command: str
    options: frozenset[str]


def signature(argv: Sequence[str]) -> Signature:
    """What an argument vector that begins with a Slurm program uses."""
    program, *words = argv
    command, options = [program], set[str]()
    verb = next((word for word in words if not word.startswith("-")), "")
    depth = _KEYWORDS[program].get(verb, 1) if program in _KEYWORDS else 0
    for word in words:
        if word.startswith("-") and word != "-":
            options |= set(_option(word))
        elif len(command) <= depth:
            command.append(word)
        elif program in _STARTERS:
            break
        elif program in _KEYWORDS:
            options |= set(_keyword(word))
    return Signature(" ".join(command), frozenset(options))


def _option(word: str) -> Iterator[str]:
    name, equals, value = word.partition("=")
    yield name if word.startswith("--") else word
    if equals and name.lower() == "--format":
        yield from (f"{name} {field.partition(':')[0]}" for field in value.split(","))


def _keyword(word: str) -> Iterator[str]:
    """`withassoc`, or the left side of `name=value`; plain values name a job or a node."""
    name, equals, value = word.partition("=")
    if equals:
        yield f"{name}="
        if name == "format":
            yield from (f"{name} {field}" for field in value.split(","))
    elif word.isalpha():
        yield word


def slurm_commands(argv: Sequence[str]) -> Iterator[Sequence[str]]:
    """The Slurm commands in an argument vector, behind env, sh and other wrappers too."""
    for position, word in enumerate(argv):
        if word.rpartition("/")[2] in PROGRAMS:
            yield [word.rpartition("/")[2], *argv[position + 1 :]]
            return
        if re.search(r"\s", word):
            yield from _in_script(word)


_SCRIPT_COMMAND = re.compile(
    rf"(?:^|[;&|({{`]|\bexec|\bthen|\bdo|\belse)\s*({'|'.join(sorted(PROGRAMS))})\b([^;&|)`\n]*)",
    re.M,
)


def _in_script(text: str) -> Iterator[Sequence[str]]:
    for found in _SCRIPT_COMMAND.finditer(text):
        try:
            yield [found[1], *shlex.split(found[2])]
        except ValueError:
            yield [found[1], *found[2].split()]


def listed(argvs: Iterable[Sequence[str]] = TABLE) -> dict[str, frozenset[str]]:
    """Command -> all the options that these examples use."""
    found: dict[str, frozenset[str]] = {}
    for argv in argvs:
        for inner in slurm_commands(argv):
            used = signature(inner)
            found[used.command] = found.get(used.command, frozenset()) | used.options
    return found


def unlisted(recorded: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Those of the recorded commands that the table does not have, as they were run."""
    known = listed()
    strange: list[Sequence[str]] = []
    for argv in recorded:
        for inner in slurm_commands(argv):
            used = signature(inner)
            new = used.options - known.get(used.command, frozenset())
            if used.command not in known or any(
                not option.startswith(DELIBERATE_MISTAKE) for option in new
            ):
                strange.append(list(inner))
    return strange
