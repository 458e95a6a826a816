"""Two chains of one notebook, which would share its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.submit.submit import SubmitOptions, prepare, submit
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Submitted
from tests.batch.notebooks import write_notebook
from tests.node.worlds import job


class _Queue(SlurmClient):
    """Takes every job, each under the next number, and keeps it until it is ended."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    async def my_jobs(self, *, name: Any = None) -> list[Job]:
        return self.jobs

    async def submit_file(self, path: str, *_: Any, **__: Any) -> Submitted:
        number = str(50 + len(self.jobs))
        self.jobs.append(job(f"{number}_1", array_id=number, state="PENDING"))
        return Submitted(number, "")


async def test_a_second_chain_in_the_folder_of_the_notebook_is_refused(
    tmp_path: Path, runner: LocalRunner
) -> None:
    notebook = write_notebook(tmp_path / "train.ipynb", ["open('state', 'w')"])
    queue = _Queue()

    async def submitted(notebook: Path, **values: Any) -> str:
        options = SubmitOptions(preflight=False, **values)
        prepared = await prepare(notebook, options, runner, None)
        return (await submit(prepared, runner, queue)).job_id

    assert await submitted(notebook, chain=3) == "50"
    assert await submitted(notebook) == "51"  # has no parts, and says what it overwrites
    assert await submitted(notebook, chain=3, isolate=True) == "52"
    assert await submitted(write_notebook(tmp_path / "b.ipynb", ["1"]), requeue=True) == "53"
    for values in ({"chain": 2}, {"requeue": True}):
        with pytest.raises(UsageError, match="Job 50 of this notebook goes on in its folder"):
            await submitted(notebook, **values)
    assert await submitted(notebook, chain=2, force=True) == "54"
    write_notebook(notebook, ["import os\nopen(os.environ['JUPYTER_HPC_CHECKPOINTS'] + '/s', 'w')"])
    assert await submitted(notebook, chain=2) == "55"  # its state is in the folder of the run
    write_notebook(notebook, ["open('state', 'w')"])
    queue.jobs = [replace(each, state="COMPLETED") for each in queue.jobs]
    assert await submitted(notebook, chain=2) == "56"
