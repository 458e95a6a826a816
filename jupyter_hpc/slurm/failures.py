"""A Slurm command that failed, as the right error: who did not answer, or said no."""

from __future__ import annotations

import re
from typing import NoReturn

from jupyter_hpc.errors import (
    AccountingDisabled,
    CommandFailed,
    CommandMissing,
    HpcError,
    JobNotFound,
    PermissionRefused,
    SlurmError,
    SlurmUnavailable,
)
from jupyter_hpc.runner import Completed, program_of
from jupyter_hpc.text import printable

_UNAVAILABLE = re.compile(
    r"Unable to contact slurm controller"
    r"|Socket timed out on send/recv operation"
    r"|Communication connection failure"
    r"|Zero Bytes were transmitted or received"
    r"|Message (?:send|receive) failure"
    r"|(?:controller|backup controller) (?:is )?in standby mode"
    r"|Unable to (?:connect|contact) (?:to )?(?:the )?(?:database|slurmdbd)"
    r"|Problem talking to the database"
    r"|failed to open persistent connection"
    r"|Sending PersistInit msg"
    r"|slurm_load_\w+ error: (?:Connection refused|Connection timed out|No route to host)"
    r"|Failed to connect to authentication agent"
    r"|Munge encode failed|Protocol authentication error"
    # scontrol's word for a controller that is down, when it changes a job
    r"|Unexpected message received",
    re.I,
)
_NOT_SET_UP = re.compile(
    r"Could not establish a configuration source|Unable to process configuration file", re.I
)
_NO_ACCOUNTING = re.compile(
    r"Slurm accounting storage is disabled"
    r"|not running a supported accounting_storage plugin"
    r"|accounting_storage/none",
    re.I,
)
_PERMISSION = re.compile(
    r"Access/permission denied|Permission denied|not permitted|Invalid user id", re.I
)
_UNKNOWN_JOB = re.compile(
    r"Invalid job id|Invalid job array|Job (?:step )?not found|Unable to find job", re.I
)
_MISSING = re.compile(r"env: .*?['‘]?(?P<program>[\w./-]+)['’]?: No such file or directory")

#: Slurm's refusals of an action on a job that exists: (its words, ours, what to do).
_REFUSED_ACTIONS: tuple[tuple[str, str, str], ...] = (
    (
        r"Job/step already completing or completed|Job has already finished",
        "has already ended or is about to.",
        "There is nothing to do.",
    ),
    (
        r"Only batch jobs are accepted or processed",
        "is not a batch job, and only those can be put back in the queue.",
        "Cancel it and ask for a new allocation.",
    ),
    (
        r"Job is no longer pending execution|Job has already started",
        "is already running, so it cannot be held or changed like a waiting one.",
        "Cancel it, or wait for its end.",
    ),
    (
        r"Requested operation is presently disabled",
        "does not allow this: it was submitted with --no-requeue, or the site switched it off.",
        "Cancel it and submit it again.",
    ),
    (r"Job is pending execution", "is still waiting, so there is nothing to put back.", ""),
    (
        r"Job is in held state",
        "is on hold.",
        "Release it first.",
    ),
    (
        r"Requested time limit is invalid|Job violates accounting/QOS policy",
        "may not have such a time limit.",
        "Stay within the partition's limit, or ask the site's support.",
    ),
)


def first_error(stderr: str) -> str:
    """The line that says what went wrong, without "squeue: error:" in front of it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    marked = [line for line in lines if re.search(r"\b(?:error|fatal):", line)]
    line = (marked or lines or [""])[-1]
    return printable(re.sub(r"^\w+: (?:(?:error|fatal): )?", "", line), 300)


def raise_failure(completed: Completed, job_id: str | None = None) -> NoReturn:
    """Raise the error that a failed command stands for."""
    raise failure(completed, job_id)


def failure(completed: Completed, job_id: str | None = None) -> HpcError:
    """The error that a failed command stands for, worded for a person."""
    said, program = completed.stderr, program_of(completed.argv)
    about = f"job {printable(job_id, 60)}" if job_id else "the request"
    if completed.returncode == 127 or _MISSING.search(said):
        return CommandMissing(
            f"The command {program!r} was not found.",
            "Run this where Slurm is installed, or check that it is on the PATH of a "
            "non-interactive shell there.",
        )
    if _NOT_SET_UP.search(said):
        return CommandMissing(
            "Slurm's commands are installed here, but no cluster is set up for them.",
            "Where this machine belongs to a cluster, tell the site's support: slurm.conf is "
            "missing.",
        )
    if _NO_ACCOUNTING.search(said):
        return AccountingDisabled(
            "This cluster keeps no accounting records.",
            "Finished jobs are forgotten a few minutes after their end; their log files remain.",
        )
    if _UNAVAILABLE.search(said):
        part = "database" if program in ("sacct", "sacctmgr") else "controller"
        return SlurmUnavailable(
            f"Slurm's {part} does not answer ({first_error(said)}).",
            "Running jobs go on without it; try again in a minute.",
        )
    if _UNKNOWN_JOB.search(said):
        return JobNotFound(
            f"Slurm does not know {about} any more.",
            "It may have ended some time ago; look at the finished jobs.",
        )
    if _PERMISSION.search(said):
        return PermissionRefused(
            f"Slurm does not allow this for {about} ({first_error(said)}).",
            "Only your own jobs can be changed; ask the site's support for anything else.",
        )
    if job_id:
        for words, text, hint in _REFUSED_ACTIONS:
            if re.search(words, said, re.I):
                return SlurmError(f"{about[0].upper()}{about[1:]} {text}", hint)
    if re.search(r"unrecognized option|Invalid job format specification", said):
        return CommandFailed(
            f"{program} does not know what it was asked for ({first_error(said)}).",
            "The cluster's Slurm may be too old: 20.11 or newer is needed.",
        )
    what = first_error(said) or "it gave no reason"
    return CommandFailed(
        f"{program} ended with code {completed.returncode}: {what}",
        "Run the same command on the cluster to see its full answer.",
    )
