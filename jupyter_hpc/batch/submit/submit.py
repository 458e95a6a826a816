"""From a notebook to a job in the queue: convert, check, freeze, submit.

Used by the command line and by the server; the runner decides where the cluster is.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.files import encoded, stem
from jupyter_hpc.batch.job.layout import laid_out
from jupyter_hpc.batch.job.model import (
    DEFAULT_REQUEST,
    DEFAULT_SCRATCH_ROOTS,
    BatchJob,
    Environment,
    Input,
    Staging,
    Until,
)
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.job.staging import Packing, pack, plan_inputs, plan_outputs
from jupyter_hpc.batch.job.sweep import grid
from jupyter_hpc.batch.preflight.code import module_sources, notebook_sources, trees
from jupyter_hpc.batch.preflight.findings import Finding, stop_for_errors
from jupyter_hpc.batch.preflight.frameworks import is_distributed
from jupyter_hpc.batch.preflight.located import home_folder, located, with_requirements
from jupyter_hpc.batch.preflight.long_runs import default_until
from jupyter_hpc.batch.preflight.preflight import Subject
from jupyter_hpc.batch.resuming.proposal import Proposal
from jupyter_hpc.batch.runtime.job.notify import NOTIFY_FILE
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.batch.submit.answers import checked_settings, checked_sweep, require_answers
from jupyter_hpc.batch.submit.drafts import Draft, read_draft, refused
from jupyter_hpc.batch.submit.folders import (
    CodeOfRun,
    Overwritten,
    area_of,
    code_of_run,
    nodes_can_write,
    overwritten_files,
    own_folder,
    refuse_second,
)
from jupyter_hpc.batch.submit.looking import estimated as estimated
from jupyter_hpc.batch.submit.looking import looked_over
from jupyter_hpc.batch.submit.modules import sibling_modules
from jupyter_hpc.batch.submit.recorded import asked_of, with_commit
from jupyter_hpc.batch.submit.runs import (
    chains_among,
    check_count,
    expanded_folder,
    note_run,
    note_watched,
    run_folder,
    uploaded_run_folder,
)
from jupyter_hpc.batch.submit.snapshot import (
    Send,
    as_json,
    create_run_folder,
    notify_file,
    remove_run_folder,
    run_files,
)
from jupyter_hpc.batch.submit.trial import computed_parts
from jupyter_hpc.batch.submit.uploads import local_inputs, requirements_of, working_files
from jupyter_hpc.clusters.sections import BatchSettings, Budget
from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.errors import HpcError, SubmitRejected, UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import Cost, job_cost
from jupyter_hpc.slurm.models import Estimate, Request
from jupyter_hpc.text import printable


@dataclass(frozen=True)
class SubmitOptions:
    """What the person chose, in the dialog or on the command line."""

    mode: Literal["script", "notebook"] = "script"
    #: Leave out cells that are not Python.
    skip_invalid: bool = False
    #: Whether compute nodes reach the Internet, by the profile.
    internet: str = "unknown"
    request: Request = DEFAULT_REQUEST
    #: CPUs of each node, by the profile; tasks on one node share them.
    node_cpus: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    at_once: int | None = None
    chain: int | None = None
    #: Seconds of a part, where their number is to be computed from a trial run.
    chain_unit: int | None = None
    #: What ends a chain; None: what the notebook is seen to do.
    until: Until | None = None
    requeue: bool = False
    #: A single run, too, works in a folder of its own.
    isolate: bool = False
    limits: BatchSettings = field(default_factory=BatchSettings)
    #: Jobs that must have ended well before.
    after: tuple[str, ...] = ()
    stage_in: tuple[str, ...] = ()
    stage_out: tuple[str, ...] = ()
    scratch_roots: tuple[str, ...] = DEFAULT_SCRATCH_ROOTS
    interval: int = 300
    environment: Environment = field(default_factory=Environment)
    #: The notebook is here and the cluster is not: send it there with the files it names.
    upload: bool = False
    #: Folder of the cluster for runs, where the notebook's own or the home folder does not serve.
    run_root: str = ""
    #: Areas of the cluster that compute nodes can only read.
    read_only: tuple[str, ...] = ()
    max_jobs: int | None = None  #: of one person, by the site
    #: Rates, and how to ask what is left.
    budget: Budget = field(default_factory=Budget)
    #: How the user is told of the end; None: not at all.
    notify: NotifySettings | None = None
    #: Look for what would go wrong before the job is queued.
    preflight: bool = True
    #: Queue it in spite of errors that are found.
    force: bool = False
    #: What was chosen in the dialog, as it was sent; kept with the run.
    choices: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """A job that is ready to be submitted, and what is known about it."""

    conversion: Conversion
    job: BatchJob
    script: str
    files: Mapping[str, bytes]
    #: Folders on the cluster that become tars when the job is submitted.
    packings: tuple[Packing, ...] = ()
    #: Files of the notebook's folder that the job is seen to write.
    overwritten: Overwritten = field(default_factory=Overwritten)
    estimate: Estimate | None = None
    cost: Cost | None = None
    budget: Budget = field(default_factory=Budget)
    findings: tuple[Finding, ...] = ()
    force: bool = False
    proposal: Proposal | None = None
    #: Where the code is, on this machine.
    origin: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "run_dir": self.job.run_dir,
            "script": self.conversion.script,
            "sbatch": self.script,
            "conversion": self.conversion.to_json(),
            "runs": self.job.runs,
            "overwritten": list(self.overwritten.replaced),
            "added_to": list(self.overwritten.added_to),
            "estimated_start": self.estimate.start if self.estimate else None,
            "estimated_nodes": self.estimate.nodes if self.estimate else "",
            "cost": str(self.cost) if self.cost else "",
            "findings": [asdict(found) for found in self.findings],
            "proposal": self.proposal.to_json() if self.proposal else None,
        }


@dataclass(frozen=True)
class SubmittedJob:
    """A job in the queue."""

    job_id: str
    run_dir: str
    messages: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"job_id": self.job_id, "run_dir": self.run_dir, "messages": list(self.messages)}


def current_environment() -> Environment:
    """The environment of this Python, for jobs that are to run in the same one."""
    if os.path.exists(os.path.join(sys.prefix, "conda-meta")):
        return Environment(conda=sys.prefix)
    if sys.prefix != sys.base_prefix:
        return Environment(venv=sys.prefix)
    return Environment()


async def prepare(
    notebook: Path,
    options: SubmitOptions,
    runner: Runner,
    client: SlurmClient | None,
    read: Draft | None = None,
) -> Prepared:
    """Convert and check; nothing is written. Without a client the cluster is not asked.

    Raises ConversionRefused (exit 3), UsageError (exit 2) or SubmitRejected (exit 4).
    """
    read = read or await read_draft(notebook, options, runner)
    conversion = read.conversion
    if not conversion.ok:
        raise refused(conversion)
    settings = checked_settings(conversion, options.settings)
    options = replace(options, sweep=checked_sweep(conversion, options.sweep))
    await require_answers(conversion, {**options.sweep, **settings}, read.names, runner)
    modules = sibling_modules(notebook.parent, conversion.imports)
    sources = (*notebook_sources(read.parsed), *module_sources(modules))
    request = laid_out(
        options.request,
        distributed=is_distributed(trees(sources)),
        node_cpus=options.node_cpus,
    )
    options = replace(options, request=request)
    job, uploads, packings = await batch_job(notebook, conversion, settings, options, runner)
    check_count(len(job.sweep), options.max_jobs)
    if options.upload:
        uploads |= working_files(read.parsed, notebook.parent)
    if options.notify is not None:
        uploads[NOTIFY_FILE] = notify_file(options.notify, notebook.name)
    values = {**{name: [value] for name, value in settings.items()}, **options.sweep}
    code = await asyncio.to_thread(code_of_run, read.parsed, conversion, modules.values(), values)
    job, overwritten = in_its_folder(job, code, notebook.parent, options)
    files = {**run_files(read.data, conversion, job, modules), **uploads}
    prepared = prepared_job(conversion, job, files, packings, options, overwritten)
    subject = Subject(
        job,
        sources,
        conversion.script,
        frozenset(path.partition("/")[0].removesuffix(".py") for path in modules),
        notebook.parent,
        prepared.files if options.upload else None,
        requirements_of(uploads),
        read.proposal,
    )
    prepared = replace(prepared, proposal=read.proposal)
    return await looked_over(prepared, subject, options, runner, client)


def in_its_folder(
    job: BatchJob, code: CodeOfRun, folder: Path, options: SubmitOptions
) -> tuple[BatchJob, Overwritten]:
    """The job with a working folder of its own, or what it overwrites in `folder` without one."""
    stuck = not options.upload and not nodes_can_write(job.work_dir, options.read_only)
    if job.staging is not None or job.sweep or options.isolate or stuck:
        own = own_folder(code, job.work_dir, options.limits)
        return replace(job, folder=replace(own, alone=job.from_laptop)), Overwritten()
    return job, Overwritten() if options.upload else overwritten_files(code, folder)


def prepared_job(
    conversion: Conversion,
    job: BatchJob,
    files: Mapping[str, bytes],
    packings: tuple[Packing, ...],
    options: SubmitOptions,
    overwritten: Overwritten,
) -> Prepared:
    """A job with its files and what it costs by its request alone."""
    budget = options.budget
    return Prepared(
        conversion=conversion,
        job=job,
        script=script_text(job),
        files={**files, RUN_FILE: encoded(as_json(asked_of(job, budget, options.choices)))},
        packings=packings,
        overwritten=overwritten,
        cost=job_cost(job.request, budget.rates, budget.unit, job.runs),
        budget=budget,
        force=options.force,
    )


async def submit(
    prepared: Prepared, runner: Runner, client: SlurmClient, send: Send | None = None
) -> SubmittedJob:
    """Freeze the run and put it into the queue. `send`: see snapshot.create_run_folder.

    Raises SubmitRejected (exit 4) if Slurm refuses it, PreflightFailed (exit 5) for errors that
    were found before; then no run folder stays."""
    job = prepared.job
    if not prepared.force:
        stop_for_errors(prepared.findings)
        if prepared.overwritten.by_name:
            await refuse_second(job, runner, client)
    await pack(runner, prepared.packings)
    files = dict(prepared.files)
    if prepared.origin is not None:
        names = [step.path for step in job.steps] or [job.notebook]
        files[RUN_FILE] = await with_commit(files[RUN_FILE], prepared.origin, names)
    await create_run_folder(runner, job.run_dir, files, send)
    path = f"{job.run_dir}/{stem(job.notebook)}.sbatch"
    try:
        submitted = await client.submit_file(path)
    except SubmitRejected:  # after other errors the job may be in the queue all the same
        await remove_run_folder(runner, job.run_dir)
        raise
    messages = submitted.messages
    try:
        await note_run(runner, submitted.job_id, job.run_dir)
    except HpcError as error:  # no reason to lose the id of a job that is in the queue
        messages += (
            f"Its run folder {job.run_dir} was not noted under its id: {error.message} Keep that "
            "path; `results` finds it only as long as Slurm knows the job.",
        )
    if job.notify:
        try:
            await note_watched(runner, submitted.job_id, job.run_dir, job.notebook)
        except HpcError as error:
            messages += (f"Laptops will not be told of its end: {error.message}",)
    return SubmittedJob(submitted.job_id, job.run_dir, messages)


def _folder_of(notebook: Path) -> str:
    return str(notebook.resolve().parent)


async def batch_job(
    notebook: Path,
    conversion: Conversion,
    settings: Mapping[str, Any],
    options: SubmitOptions,
    runner: Runner,
) -> tuple[BatchJob, dict[str, bytes], tuple[Packing, ...]]:
    """The job, files of this machine that it needs on the cluster, and folders there to pack."""
    #: Where relative paths of the cluster begin.
    base = work_dir = _folder_of(notebook)
    run_dir = run_folder(notebook.name, work_dir)
    root = options.run_root
    if options.upload:
        base = await home_folder(runner)
        root = root and await expanded_folder(runner, root)
        run_dir = uploaded_run_folder(notebook.name, root or f"{base}/jupyter-hpc")
        work_dir = f"{run_dir}/work"
    elif root and not nodes_can_write(work_dir, options.read_only):
        run_dir = uploaded_run_folder(notebook.name, await expanded_folder(runner, root))
    elif (area := area_of(work_dir, options.read_only)) is not None:
        raise UsageError(
            f"Compute nodes can only read {printable(area, 200)}, where the notebook is: a job "
            "could write nothing there.",
            "Name a folder that they can write to in the profile: [batch] run_dir; or move it.",
        )
    name = options.request.name or re.sub(r"[^\w.-]+", "_", stem(notebook.name))[:40]
    request = replace(options.request, name=name)
    job = BatchJob(
        notebook=notebook.name,
        run_dir=run_dir,
        work_dir=work_dir,
        request=request,
        mode=options.mode,
        environment=await located(options.environment, runner, base),
        chain=options.chain
        or await computed_parts(options.chain_unit, conversion, settings, run_dir, runner),
        until=options.until or default_until(conversion.script),
        sweep=grid(options.sweep),
        at_once=options.at_once,
        parameters=settings,
        requeue=options.requeue,
        after=options.after,
        after_chains=await chains_among(runner, options.after),
        notify=options.notify is not None,
        check_gpu="torch" in conversion.imports,
    )
    job, uploads = await with_requirements(job, notebook.parent, runner)
    if not options.stage_in and not options.stage_out:
        return job, uploads, ()
    sent: dict[str, Input] = {}
    if options.upload:
        files, sent = local_inputs(notebook.parent, options.stage_in, run_dir)
        uploads |= files
    there = [path for path in options.stage_in if path not in sent]
    found, packings = await plan_inputs(runner, there, base, f"{os.path.dirname(run_dir)}/staged")
    outputs = plan_outputs(options.stage_out, _folder_of(notebook))
    staging = Staging((*sent.values(), *found), outputs, options.scratch_roots, options.interval)
    return replace(job, staging=staging), uploads, packings
