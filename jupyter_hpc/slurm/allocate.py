"""salloc and srun: get an allocation, read how it goes, run a step inside it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jupyter_hpc.slurm.fields import job_ids
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.options import request_options
from jupyter_hpc.slurm.releases import Release, step_gpus
from jupyter_hpc.slurm.submit import BatchOptions

AllocationState = Literal["starting", "pending", "granted", "failed", "revoked"]


@dataclass(frozen=True)
class SallocProgress:
    """What salloc has said so far.

    starting: nothing decisive yet; pending: queued under `job_id`; granted: the
    allocation exists; failed: it was refused or given up before it was granted;
    revoked: it was taken away. `messages` are the site's own lines in their order.
    `interrupted`: a signal has ended salloc, which takes its request back with it; a job that
    somebody cancels leaves other words.
    """

    state: AllocationState
    job_id: str | None = None
    nodes: str = ""  #: hostlist, once salloc named it
    ready: bool = False  #: nodes are up and prolog has run
    messages: tuple[str, ...] = ()
    error: str = ""
    interrupted: bool = False


def salloc_argv(request: Request) -> list[str]:
    """salloc that leaves the allocation behind and ends.

    The caller runs it detached: without a terminal it outlives a lost connection,
    pending or granted. It must not be quiet, since -Q hides the job id.
    """
    return ["salloc", "--no-shell", *request_options(request)]


_SELECT = re.compile(r"^SelectType\s*= ?(?:select/)?(?P<name>\S+)", re.MULTILINE)
_INACTIVE = re.compile(r"^InactiveLimit\s*= ?(?P<seconds>\d+)", re.MULTILINE)


def config_argv() -> list[str]:
    """Everything the controller was configured with."""
    return ["scontrol", "show", "config"]


def read_inactive_limit(config: str) -> int:
    """Seconds after which an allocation with no process at its command is ended; 0: never.

    salloc --no-shell leaves an allocation without such a process behind.
    """
    found = _INACTIVE.search(config)
    return int(found["seconds"]) if found else 0


def read_select_type(config: str) -> str:
    """Who hands out nodes and their parts, such as `cons_tres`; "" if that is not told.

    Only cons_tres takes --gpus and its relatives; with any other, --gres is the one way.
    """
    found = _SELECT.search(config)
    return found["name"] if found else ""


# (pattern, state it leads to); wording identical from 17.11 to 26.05. A state of
# None keeps the one before.
_LINES: tuple[tuple[str, AllocationState | None], ...] = (
    (r"Pending job allocation (?P<id>\d+)", "pending"),
    (r"job (?P<id>\d+) queued and waiting for resources", "pending"),
    (r"job (?P<id>\d+) has been allocated resources", "pending"),
    (r"Granted job allocation (?P<id>\d+)", "granted"),
    (r"Waiting for resource configuration", None),
    (r"Nodes (?P<ready>\S+) are ready for job", "granted"),
    (r"Nodes (?P<nodes>\S+) are still not ready", "granted"),
    (r"Relinquishing job allocation (?P<id>\d+)", "revoked"),
    (r"Job allocation (?P<id>\d+) has been revoked\.?", "revoked"),
    (r"Job (?P<id>\d+) has exceeded its time limit and its allocation .*", "revoked"),
)

# What ends salloc without an allocation. With --immediate the first says "Unable to
# allocate resources"; all other errors before a job id are about its options.
_FAILURES = (
    r"error: (?:Job submit/allocate failed|Unable to allocate resources): (?P<why>.*)",
    r"(?:error: )?(?P<why>Interrupted by signal\. +Allocation request rescinded\.)",
    r"(?P<why>Job aborted due to signal)",
    r"(?:error: )?(?P<why>Something is wrong with the boot of the nodes\.)",
    r"(?:error: )?(?P<why>no controlling terminal: please set --no-shell)",
    r"fatal: (?P<why>.*)",
    r"(?P<why>(?:unrecognized|invalid|ambiguous) option.*|option .*(?:requires|allow) .*)",
)
#: Those of a signal; a job that is cancelled while it waits says "Job has been cancelled".
_BY_SIGNAL = re.compile(r"Interrupted by signal\..*|Job aborted due to signal")
#: salloc goes on after these: the queue is full or the controller busy.
_RETRYING = "sleeping and retrying"


def read_salloc(stderr: str) -> SallocProgress:
    """Read salloc's messages, complete or not, from its stderr or its log.

    A last line without its line break may still grow and is left out.
    """
    state: AllocationState = "starting"
    job_id: str | None = None
    nodes, ready, why, interrupted = "", False, "", False
    errors: list[str] = []
    messages: list[str] = []
    for line in stderr.split("\n")[:-1]:
        said = re.fullmatch(r"salloc: (.*?)\r?", line)
        body = said[1] if said else line.strip()
        known = next(((m, s) for p, s in _LINES if (m := re.fullmatch(p, body))), None)
        failure = next((found for p in _FAILURES if (found := re.fullmatch(p, body))), None)
        if known:
            groups = known[0].groupdict()
            state = known[1] or state
            job_id = groups.get("id") or job_id
            ready = ready or "ready" in groups
            nodes = groups.get("ready") or groups.get("nodes") or nodes
        elif failure:
            state = "revoked" if state == "granted" else "failed"
            why = failure["why"]
            interrupted = interrupted or bool(_BY_SIGNAL.fullmatch(why))
        elif body.startswith("error: ") and _RETRYING not in body:
            errors.append(body.removeprefix("error: "))
        elif body and not body.startswith('Try "salloc --help"'):
            messages.append(body)
    if errors and state == "starting":
        state = "failed"
    # a site's job_submit plugin explains itself in error lines before the verdict
    reported = [*errors, why] if state == "failed" else [why]
    error = "\n".join(filter(None, reported))
    return SallocProgress(state, job_id, nodes, ready, tuple(messages), error, interrupted)


def step_argv(
    job_id: str,
    argv: Sequence[str],
    *,
    unbuffered: bool = False,
    no_input: bool = True,
    quiet: bool = False,
    node: str | None = None,
    gpus: int | None = None,
    release: Release | None = None,
    output: str | None = None,
    name: str | None = None,
) -> list[str]:
    """srun that runs `argv` once, beside whatever else runs in the job.

    `unbuffered` passes bytes as they come (srun buffers lines otherwise, and binary
    data hangs); `no_input` keeps srun from eating the caller's stdin; `node` picks
    one node of several, which Slurm else picks as it likes. The step may use all CPUs and
    memory that the job has on that node: it shares them (--overlap), and is not bound to
    one core. Without --mem=0 it would claim memory of its own and at times be refused
    ("Memory required by task is not available", 22.05); its limit is the job's either way.

    `gpus` is how many it may use: 0 for none, which also keeps it from waiting for GPUs
    that another step has (up to 21.08 --overlap does not share them); None for what was
    asked for the job, which is all of them on one node and cannot be had on one of
    several when it was asked job-wide ("Invalid generic resource (gres) specification").
    `release` is that of the cluster, where it is known: it decides how they are counted.
    """
    (checked,) = job_ids([job_id])
    words = ["srun", f"--jobid={checked}", "--overlap", "--nodes=1", "--ntasks=1"]
    words += ["--mem=0", "--cpu-bind=none"]
    if node is not None:
        words.append(f"--nodelist={node}")
    if gpus is not None:
        # not --gres=gpu:N, which is refused where types are mixed or unevenly spread (22.05)
        words.append(step_gpus(gpus, release))
    if name is not None:
        words.append(f"--job-name={name}")
    if unbuffered:
        words.append("--unbuffered")
    if quiet:
        words.append("--quiet")
    if no_input:
        words.append("--input=none")
    if output is not None:
        words += [f"--output={output}"]
    return [*words, *argv]


#: sbatch's options for `keep_alive_script`: no log file, never started a second time.
KEEP_ALIVE = BatchOptions(output="/dev/null", requeue=False)


def keep_alive_script(argv: Sequence[str] = ()) -> str:
    """The batch script for sites where an allocation without a shell cannot live.

    It only keeps the job alive, so that everything else is the same as with salloc;
    with `argv` it runs that instead and the job ends with it.
    """
    if argv:
        body = "exec " + shlex.join(argv)
    else:
        # sleep in the background: a shell that waits for it hears signals at once
        body = "trap 'exit 0' TERM INT HUP\nwhile :; do sleep 3600 & wait $!; done"
    return f"#!/bin/sh\n{body}\n"
