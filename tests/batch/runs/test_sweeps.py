"""Of a sweep, the run that failed is told of; of a chain that held itself, what became of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from jupyter_hpc.batch.runs.endings import ending_of, telling_run
from jupyter_hpc.batch.runs.ticket import ticket
from jupyter_hpc.batch.submit.results import log_path
from jupyter_hpc.cli import jobs as module
from jupyter_hpc.errors import JobNotFound
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, JobDetail
from tests.node.worlds import FakeSlurm, finished_job, job

FAILED = """\
Traceback (most recent call last):
  File "t.py", line 32, in <module>
    raise ValueError('too large')
ValueError: too large
[jupyter-hpc] failed in cell 3 of t.ipynb
srun: error: task 0: Exited with exit code 1
"""

RECORDS = [
    replace(finished_job("7_1", exit_code=0, started=1), job_id="8"),
    replace(finished_job("7_2", state="FAILED", exit_code=1, signal=0, started=1), job_id="9"),
    replace(finished_job("7_3", exit_code=0, started=1), job_id="7"),
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of run 7."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run, notes = tmp_path / "run", tmp_path / "jupyter-hpc/runs"
    for folder in (run / "output", run / "logs", notes):
        folder.mkdir(parents=True)
    (notes / "7").write_text(str(run))
    return run


class _Recorded(SlurmClient):
    """Only the database remembers."""

    async def job_detail(self, job_id: str) -> JobDetail:
        raise JobNotFound(f"There is no job {job_id}.", "")

    async def finished(self, ids: object, *, steps: bool = True) -> list[FinishedJob]:
        return RECORDS

    async def version(self) -> tuple[int, int]:
        return 22, 5


@pytest.fixture
def sweep(run: Path) -> SlurmClient:
    """Three runs, of which the second failed and the third was the last to end."""
    (run / "parameters").mkdir()
    for task, text in ((1, "ok\n"), (2, FAILED), (3, "fine\n")):
        (run / "parameters" / f"{task}.json").write_text("{}")
        (run / "logs" / f"7_{task}.out").write_text(text)
    return _Recorded(LocalRunner())


async def test_the_run_that_failed_is_told_of(sweep: SlurmClient) -> None:
    runner = LocalRunner()
    assert await telling_run(runner, sweep, "7") == "7_2"
    assert await telling_run(runner, sweep, "7_1") == "7_1"
    text, over = await ending_of(runner, sweep, "7")
    assert over and text.startswith("Cell 3 ended with ValueError: too large.")
    told = await ticket(runner, sweep, "7", "1.0")
    assert told.startswith("Job 7_2\nThe first run of the sweep 7 that failed\nState: FAILED")
    assert "failed in cell 3" in told and "fine" not in told


async def test_a_run_that_is_not_of_the_sweep(sweep: SlurmClient) -> None:
    assert (await log_path(LocalRunner(), "7_2")).endswith("logs/7_2.out")
    with pytest.raises(JobNotFound, match="The sweep 7 has no run 9"):
        await log_path(LocalRunner(), "7_9")


def test_what_a_job_held_itself_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = "Held after part 2: 2 parts left no newer checkpoint than they found. Look why."
    state = {"code": 85, "part": 2, "next": "held", "rest": held}
    (run / "output" / "state.json").write_text(json.dumps(state))
    slurm = FakeSlurm()

    @contextlib.asynccontextmanager
    async def host(on: str | None) -> AsyncIterator[Any]:
        yield SimpleNamespace(runner=LocalRunner(), profile=None)

    monkeypatch.setattr(module, "open_host", host)
    monkeypatch.setattr(module, "SlurmClient", lambda runner: slurm)

    slurm.queue = [job("7_[3-4]", state="PENDING", reason="JobHeldUser")]
    shown = CliRunner().invoke(module.jobs).output
    assert held in shown and "by you" not in shown

    slurm.queue = []
    slurm.records = [
        finished_job("7_2", state="FAILED", exit_code=85),
        finished_job("7_[3-4]", state="CANCELLED"),
    ]
    shown = CliRunner().invoke(module.jobs).output
    assert "and then cancelled" in shown and "Look why" not in shown
