"""Preflight: what would go wrong with a job, found before it waits in the queue.

    seen = await preflight(subject, runner)

Errors are certain as far as code and cluster tell; what only may go wrong is a warning. The
cluster is asked once (probe.py), and what cannot be seen from here is said to be unseen.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.paths.outside import FAR
from jupyter_hpc.batch.paths.written import unknown_folders, written_paths
from jupyter_hpc.batch.preflight.checks import (
    budget_findings,
    distribution,
    environment_findings,
    import_findings,
    input_findings,
    output_findings,
    trainer_findings,
    variable_findings,
)
from jupyter_hpc.batch.preflight.code import Source, trees
from jupyter_hpc.batch.preflight.findings import Finding, errors_first, warning
from jupyter_hpc.batch.preflight.frameworks import trainer_calls
from jupyter_hpc.batch.preflight.imports import Needed, needed_modules
from jupyter_hpc.batch.preflight.inputs import Input, named_inputs
from jupyter_hpc.batch.preflight.long_runs import left_checkpoint_findings, long_run_findings
from jupyter_hpc.batch.preflight.probe import Answer, Question, probe
from jupyter_hpc.batch.preflight.variables import needed_variables
from jupyter_hpc.batch.resuming.proposal import Proposal
from jupyter_hpc.clusters.budget import read_remaining
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.cost import Cost
from jupyter_hpc.text import printable

#: A site's command that takes longer does not hold a submit up.
_BUDGET_SECONDS = 5.0

#: Of a large sweep so many runs are looked at; what they share, the others share as well.
_MAX_RUNS_READ = 12

#: What an executed notebook needs besides its own imports.
_FOR_NOTEBOOKS = ("nbclient", "ipykernel")


@dataclass(frozen=True)
class Subject:
    """A job that is about to be submitted, and the code that it runs."""

    job: BatchJob
    sources: tuple[Source, ...]
    #: The code as one text, with the marks of a converted script where it is one.
    code: str
    #: Modules that travel with it.
    own_modules: frozenset[str] = frozenset()
    #: Where relative paths of the code begin, on this machine.
    folder: Path = field(default_factory=Path)
    #: The job's folder is elsewhere: only these files are there, by their path in the run folder.
    sent: Mapping[str, bytes] | None = None
    requirements: str | None = None
    #: What its notebook lacks to go on where it ended.
    proposal: Proposal | None = None


@dataclass(frozen=True)
class Seen:
    """What was found, errors first, and the environment as it was then."""

    findings: tuple[Finding, ...]
    #: "3.11", empty where nothing could be seen, and the versions of imported packages.
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


async def preflight(subject: Subject, runner: Runner) -> Seen:
    """Look at the code, and once at the cluster."""
    job, sources = subject.job, subject.sources
    written = written_paths(subject.code, _given(job))
    needed = needed_modules(sources, subject.own_modules, as_script=job.mode == "script")
    if job.mode == "notebook":
        if any(source.installs for source in sources):  # which a script has done before
            needed = [replace(each, certain=False) for each in needed]
        needed += [Needed(module, "", certain=True) for module in _FOR_NOTEBOOKS]
    variables = needed_variables(sources)
    inputs = named_inputs(sources, written)
    far = [each for each in inputs if each.path.startswith(("/", "~"))]
    question = Question(
        modules=[each.module for each in needed],
        distributions=[distribution(each.module) for each in needed],
        paths=[each.path for each in far],
        variables=[each.name for each in variables],
        requirements=subject.requirements,
    )
    try:
        answer = await probe(job.environment, question, runner)
    except HpcError as failed:
        answer = Answer(unseen_because=failed.message.rstrip("."))
    absent = [each for each in far if answer.paths.get(each.path) is False]
    near = [each for each in inputs if each not in far]
    absent_here, unsent = _looked_for(near, subject)
    findings = errors_first(
        [
            *environment_findings(job.environment, answer),
            *import_findings(job.environment, needed, answer),
            *input_findings([*absent, *absent_here], unsent),
            *variable_findings(variables, answer),
            *trainer_findings(job, trainer_calls(trees(sources))),
            *long_run_findings(job, subject.code, subject.proposal),
            *(
                left_checkpoint_findings(job, subject.code, subject.folder)
                if subject.sent is None
                else ()
            ),
            *output_findings(
                job,
                [written_paths(subject.code, run) for run in _runs(job)],
                written,
                unknown_folders(subject.code, _given(job)),
            ),
        ]
    )
    return Seen(findings, answer.version, answer.versions)


async def budget_preflight(
    budget: Budget, account: str | None, cost: Cost | None, runner: Runner
) -> tuple[Finding, ...]:
    """Whether what is left of the budget is enough, where the profile says how to find out."""
    remaining, unknown = await remaining_budget(budget, account, runner)
    return unknown or tuple(budget_findings(cost, remaining, budget.unit, budget.warn_below))


async def remaining_budget(
    budget: Budget, account: str | None, runner: Runner
) -> tuple[float | None, tuple[Finding, ...]]:
    """What is left, or why that is not known; neither where the profile does not say how."""
    if not budget.command or budget.remaining is None:
        return None, ()
    try:
        done = await runner.run(list(budget.command), timeout=_BUDGET_SECONDS)
    except HpcError as failed:
        return None, (warning("budget", f"The budget is not known: {failed.message}"),)
    remaining = read_remaining(done.stdout, budget.remaining, account) if done.ok else None
    if remaining is not None:
        return remaining, ()
    said = printable(done.stderr.strip() or done.stdout.strip(), 120) or "nothing"
    command = printable(budget.command[0], 60)
    unknown = warning(
        "budget",
        f"What is left of the budget was not found in what {command} says ({said}).",
        "The profile's budget.remaining has to match it.",
    )
    return None, (unknown,)


def _given(job: BatchJob) -> dict[str, list[object]]:
    """The values that the runs give to parameters."""
    given: dict[str, list[object]] = {name: [value] for name, value in job.parameters.items()}
    for run in job.sweep:
        for name, value in run.items():
            given.setdefault(name, []).append(value)
    return given


def _runs(job: BatchJob) -> list[dict[str, list[object]]]:
    """The same for each run of a sweep by itself."""
    return [
        {name: [value] for name, value in {**job.parameters, **run}.items()}
        for run in job.sweep[:_MAX_RUNS_READ]
    ]


def _looked_for(
    inputs: list[Input], subject: Subject
) -> tuple[list[Input], list[tuple[Input, str]]]:
    """Relative paths that are nowhere, and those that are here but are not sent, and why."""
    absent: list[Input] = []
    unsent: list[tuple[Input, str]] = []
    for each in inputs:
        path = posixpath.normpath(each.path)
        if path == "." or _staged(path, subject.job) or path.startswith(FAR):
            continue
        try:
            there = (subject.folder / path).exists()
        except (OSError, ValueError):
            continue
        if not there:
            absent.append(each)
        elif subject.sent is not None and f"work/{path}" not in subject.sent:
            unsent.append((each, _why_unsent(path, subject.folder)))
    return absent, unsent


def _staged(path: str, job: BatchJob) -> bool:
    inputs = job.staging.inputs if job.staging is not None else ()
    return any(path == each.target or path.startswith(f"{each.target}/") for each in inputs)


def _why_unsent(path: str, folder: Path) -> str:
    if path.startswith(".."):
        return "it lies outside of the notebook's folder"
    if (folder / path).is_dir():
        return "it is a folder"
    if any(part.startswith(".") for part in path.split("/")):
        return "hidden files stay here"
    return f"it has {os.path.getsize(folder / path) // 1_000_000} MB"
