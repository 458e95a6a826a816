"""The text for a site's support: what is known of a job, and of the Python that it ran in."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from jupyter_hpc.batch.runs.ticket import ticket
from jupyter_hpc.errors import JobNotFound
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, JobDetail
from tests.node.worlds import finished_job


class _Slurm(SlurmClient):
    records: tuple[FinishedJob, ...] = ()

    async def job_detail(self, job_id: str) -> JobDetail:
        raise JobNotFound(f"There is no job {job_id}.", "")

    async def finished(self, ids: object, *, steps: bool = True) -> list[FinishedJob]:
        return list(self.records)

    async def version(self) -> tuple[int, int]:
        return 22, 5


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run, notes = tmp_path / "run", tmp_path / "jupyter-hpc/runs"
    for folder in (run / "output", run / "logs", notes):
        folder.mkdir(parents=True)
    (notes / "7").write_text(str(run))
    asked = {
        "notebook": "a.ipynb",
        "request": {"time": "01:00:00", "gpus": 1},
        "environment": {"python": "3.6", "packages": {"torch": "2.1"}, "modules": ["cuda/12"]},
    }
    (run / "run.json").write_text(json.dumps(asked))
    (run / "logs" / "7.out").write_text("[jupyter-hpc] job 7 on gpu03, restarted 0 times\nlast\n")
    (run / "a.sbatch").write_text("#!/bin/bash\n#SBATCH --gpus=1\n")
    return run


async def test_the_versions_are_those_of_the_job(run: Path) -> None:
    slurm = _Slurm(LocalRunner())
    slurm.records = (finished_job("7", state="FAILED", exit_code=1, signal=0),)
    lines = (await ticket(LocalRunner(), slurm, "7", "1.0")).splitlines()
    assert "Python of the job: 3.6" in lines and "Packages of the job: torch 2.1" in lines
    assert "Modules of the job: cuda/12" in lines and "  #SBATCH --gpus=1" in lines
    (versions,) = (line for line in lines if line.startswith("Versions: "))
    assert "login host" in versions and platform.python_version() not in versions


async def test_of_a_job_that_slurm_has_forgotten_the_run_folder_tells(run: Path) -> None:
    slurm = _Slurm(LocalRunner())
    state = {"code": 3, "job": "7", "time": 7200, "seconds": 3600}
    (run / "output" / "state.json").write_text(json.dumps(state))
    lines = (await ticket(LocalRunner(), slurm, "7", "1.0")).splitlines()
    assert lines[1:8] == [
        "State: Slurm has no record of it any more.",
        "What happened: The program ended with code 3.",
        "Exit code of the program: 3",
        "Began on: gpu03",
        "Asked for: time 01:00:00, gpus 1",
        "Started: 1970-01-01 01:00:00 UTC",
        "Ended: 1970-01-01 02:00:00 UTC",
    ]
    (run / "output" / "state.json").unlink()
    told = await ticket(LocalRunner(), slurm, "7", "1.0")
    assert "What happened: it noted no end." in told and "Began on: gpu03" in told
