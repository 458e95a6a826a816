"""What a submit has asked for, kept in its run folder for whoever looks at its runs later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jupyter_hpc.batch.job.files import encoded
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.preflight.preflight import Seen
from jupyter_hpc.batch.submit.snapshot import as_json
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.slurm.cost import cost_of_time

#: Tells of a run with several parts that leave their state in the notebook's folder.
GOES_ON_HERE = "goes_on_in_folder"


def with_environment(asked: bytes, job: BatchJob, seen: Seen) -> bytes:
    """run.json with what the job is going to run in, as far as that was seen."""
    if not seen.python:
        return asked
    found = {"python": seen.python, "packages": dict(sorted(seen.packages.items()))}
    modules = list(job.environment.modules)
    return encoded(as_json({**json.loads(asked), "environment": {**found, "modules": modules}}))


def asked_of(job: BatchJob, budget: Budget, choices: Mapping[str, Any]) -> dict[str, Any]:
    """The content of run.json: the request, the kind of the submit and the price of an hour.

    The price is kept, because rates change, and because Slurm forgets what a job had. `choices`
    are those of the dialog, which it begins with when the run is run again.
    """
    request = {name: value for name, value in asdict(job.request).items() if value}
    hour = cost_of_time(job.request, budget.rates, budget.unit, 3600)
    return {
        "notebook": job.notebook,
        "folder": job.work_dir,
        "mode": job.mode,
        "steps": [step.path for step in job.steps],
        "runs": len(job.sweep) or 1,
        "swept": list(dict.fromkeys(name for values in job.sweep for name in values)),
        "parts": job.chain,
        GOES_ON_HERE: job.goes_on and job.in_notebooks_folder,
        "request": request,
        "hour": {"amount": hour.amount, "unit": hour.unit},
        **({"choices": dict(choices)} if choices else {}),
    }
