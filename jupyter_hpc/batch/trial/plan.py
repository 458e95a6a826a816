"""What a trial of a notebook is: its script with one epoch and with a few, and the files for it.

The files are those of a job, so that the trial runs what the job would run, with the same Python
and the same modules. Where it runs, in the session or as a short job, its caller decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.files import encoded, stem
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.job.steps import SCRIPTS
from jupyter_hpc.batch.runtime.job.run_table import EPOCH
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.batch.submit.drafts import Draft, refused
from jupyter_hpc.batch.submit.snapshot import as_json
from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare
from jupyter_hpc.batch.submit.trial import epochs_of
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.units import parse_walltime
from jupyter_hpc.text import duration, printable

#: The program that runs the trial, and what it reads; both are shipped with the files.
PROGRAM = "jupyter_hpc_trial.py"
PLAN = "trial.json"

#: A trial is for minutes; longer ones are jobs.
MAX_SECONDS = 3600.0
MAX_EPOCHS = 1000

#: What computes on GPUs where it finds some: without one its times are others.
_GPU_PACKAGES = (
    *("torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "fastai", "timm"),
    *("tensorflow", "keras", "jax", "flax", "cupy"),
)


@dataclass(frozen=True)
class Wanted:
    """So many epochs, in so many seconds at most."""

    epochs: int = 2
    seconds: float = 600.0

    def __post_init__(self) -> None:
        if not 1 <= self.epochs <= MAX_EPOCHS:
            raise UsageError(
                f"A trial of {self.epochs} epochs is none.", f"Try 1 to {MAX_EPOCHS} of them."
            )
        if not 1 <= self.seconds <= MAX_SECONDS:
            raise UsageError(
                f"A trial lasts {duration(MAX_SECONDS)} at most, and {self.seconds:g} s were "
                "given.",
                "Try fewer epochs; for longer ones submit a short job.",
            )


def read_wanted(text: str) -> Wanted:
    """`2 epochs`, `2`, or `2 epochs in 30 min`; UsageError for all else."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*(?:epochs?)?\s*(?:in\s+(.+?))?\s*", text)
    if found is None or int(found[1]) < 1:
        raise UsageError(
            f"--trial {printable(text, 40)} is no number of epochs.",
            'Write --trial "2 epochs", or "2 epochs in 30 min".',
        )
    if found[2] is None:
        return Wanted(int(found[1]))
    minutes = re.fullmatch(r"(\d{1,5})\s*(?:min|minutes?|m)", found[2])
    seconds = int(minutes[1]) * 60 if minutes else parse_walltime(found[2]) or 0
    return Wanted(int(found[1]), float(seconds))


@dataclass(frozen=True)
class Trial:
    """A trial that is ready to be run, and what its result will be about."""

    conversion: Conversion
    job: BatchJob
    files: Mapping[str, bytes]
    wanted: Wanted
    #: All epochs of the notebook.
    total: int
    #: Processes of the job on each of its nodes; the trial is one.
    processes: int
    #: Packages that it would use a GPU with.
    gpu_packages: tuple[str, ...]
    #: In what the trial is not what the job will be.
    notes: tuple[str, ...]


async def plan_trial(
    notebook: Path, draft: Draft, options: SubmitOptions, runner: Runner, wanted: Wanted
) -> Trial:
    """The trial of a notebook with these choices; nothing is written.

    Raises UsageError where there is nothing to measure by, ConversionRefused and what `prepare`
    raises.
    """
    if options.mode != "script":
        raise UsageError(
            "A trial runs the notebook as a script, and here it is to run as an executed notebook.",
            "Choose the script for the trial; the times are the same.",
        )
    conversion = draft.conversion
    if not conversion.ok:
        raise refused(conversion)
    first = {name: values[0] for name, values in options.sweep.items() if values}
    alone = _alone(options, {**options.settings, **first})
    prepared = await prepare(notebook, alone, runner, None, draft)
    job = prepared.job
    parameter, total = epochs_of(conversion, job.parameters)
    swept = next((v for k, v in options.sweep.items() if k.lower() == parameter.lower()), ())
    total = max([total, *(int(value) for value in swept if str(value).isdigit())])
    epochs = min(wanted.epochs, total)
    counts = [1] if epochs == 1 else [1, epochs]
    plan = {
        "script": f"{stem(job.notebook)}.py",
        "runs": [
            {"epochs": count, "parameters": {**job.parameters, parameter: count}}
            for count in counts
        ],
        "seconds": wanted.seconds,
        "epoch": EPOCH.pattern,  # how a notebook tells of one
    }
    program = resources.files(f"{__package__}.shipped").joinpath("trial.py").read_text("utf-8")
    files = {
        **prepared.files,
        f"{SCRIPTS}/{PROGRAM}": encoded(program),
        PLAN: encoded(as_json(plan)),
    }
    files.pop(RUN_FILE, None)  # it is none of the runs that are listed
    return Trial(
        conversion,
        job,
        files,
        replace(wanted, epochs=epochs),
        total,
        -(-job.tasks // job.nodes),
        tuple(each for each in _GPU_PACKAGES if job.gpus and each in conversion.imports),
        tuple(_notes(job, options, first)),
    )


def _alone(options: SubmitOptions, settings: Mapping[str, Any]) -> SubmitOptions:
    """One run in a folder of its own, whatever the job is made of."""
    return replace(
        options,
        settings=settings,
        sweep={},
        at_once=None,
        chain=None,
        chain_unit=None,
        until=None,
        requeue=False,
        isolate=True,
        after=(),
        stage_in=(),
        stage_out=(),
        notify=None,
        preflight=False,
    )


def _notes(job: BatchJob, options: SubmitOptions, first: Mapping[str, Any]) -> Sequence[str]:
    found = []
    if job.tasks > 1:
        found.append(
            f"The trial was one process, and the job has {job.tasks}: it may need less time."
        )
    if first:
        values = ", ".join(f"{name} = {value}" for name, value in first.items())
        found.append(f"It was tried with {printable(values, 200)}; other runs may take longer.")
    if options.stage_in or options.stage_out:
        found.append("Data was read from where it lies, not from a copy on the node's disk.")
    return found
