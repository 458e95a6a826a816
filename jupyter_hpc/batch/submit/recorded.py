"""What a submit has asked for, kept in its run folder for whoever looks at its runs later."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.job.files import encoded
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.preflight.preflight import Seen
from jupyter_hpc.batch.submit.snapshot import as_json
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Completed, LocalRunner
from jupyter_hpc.slurm.cost import cost_of_time

#: Tells of a run with several parts that leave their state in the notebook's folder.
GOES_ON_HERE = "goes_on_in_folder"

#: A submit waits no longer for git, whose look at a large repository can take minutes.
GIT_SECONDS = 2.0

#: git without what a repository could make it run or write, and on this folder whatever the shell
#: that started us was at work on.
_GIT = (
    *("env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE"),
    *("git", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false"),
)


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


async def with_commit(asked: bytes, folder: Path, names: Sequence[str]) -> bytes:
    """run.json with the git commit that the folder is at, and whether it differs from it.

    `names` are the files that run, which have to be part of it. The folder is on this machine
    also where the cluster is not. Without git or a repository, and where either is somebody
    else's, nothing is added; `changed` is None where git did not tell in time.
    """
    if not await asyncio.to_thread(_is_own_repository, folder):
        return asked
    # Files that git does not know are results as a rule, and count as no change.
    differs = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    head, status, tracked = await asyncio.gather(
        _git(folder, "rev-parse", "--verify", "HEAD"),
        _git(folder, *differs, "--", "."),
        _git(folder, "ls-files", "--error-unmatch", "--", *names),
    )
    if head is None or not head.ok:
        return asked
    changed = None
    if status is not None and status.ok and tracked is not None:
        changed = bool(status.stdout.strip()) or not tracked.ok
    code = {"commit": head.stdout.strip(), "changed": changed}
    return encoded(as_json({**json.loads(asked), "code": code}))


def _is_own_repository(folder: Path) -> bool:
    """Whether git may be run here: older ones do what any repository's settings say."""
    try:
        folder = folder.resolve()
        top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
        if top is None:
            return False
        return all(each.stat().st_uid == os.geteuid() for each in (folder, top, top / ".git"))
    except OSError:
        return False


async def _git(folder: Path, *words: str) -> Completed | None:
    try:
        return await LocalRunner().run([*_GIT, "-C", str(folder), *words], timeout=GIT_SECONDS)
    except HpcError:
        return None
