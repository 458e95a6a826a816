"""`jupyter-hpc jobs`, while the database lags behind the queue."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from jupyter_hpc.cli import jobs as module
from jupyter_hpc.runner import LocalRunner
from tests.node.worlds import FakeSlurm, finished_job, job


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm()

    @contextlib.asynccontextmanager
    async def host(on: str | None) -> AsyncIterator[Any]:
        runner = LocalRunner({"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
        yield SimpleNamespace(runner=runner, profile=None)

    monkeypatch.setattr(module, "open_host", host)
    monkeypatch.setattr(module, "SlurmClient", lambda runner: fake)
    return fake


def test_a_job_that_only_the_controller_remembers_is_listed(slurm: FakeSlurm) -> None:
    slurm.queue = [job("3")]
    slurm.remembered = [job("1", state="COMPLETED"), job("2", state="FAILED", time_used=60)]
    slurm.records = [finished_job("1", exit_code=0), finished_job("3", state="RUNNING")]
    shown = CliRunner().invoke(module.jobs, ["--json"])
    rows = json.loads(shown.stdout)
    assert [(row["id"], row["state"]) for row in rows] == [
        ("3", "RUNNING"),
        ("1", "COMPLETED"),
        ("2", "FAILED"),
    ]
    assert rows[1]["exit_code"] == 0, "the database knows more, where it knows it"
    assert "2  job 2  FAILED, " in CliRunner().invoke(module.jobs).output
