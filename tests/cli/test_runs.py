"""`jupyter-hpc runs`: the table, JSON, and runs that are deleted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jupyter_hpc.cli import runs as module
from jupyter_hpc.errors import SlurmUnavailable
from jupyter_hpc.runner import LocalRunner
from tests.batch.runs.test_registry import RUN, make_run, notes, put  # noqa: F401
from tests.node.worlds import FakeSlurm, job

NAME = "20261119-101500-0a1b"


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm()

    @contextlib.asynccontextmanager
    async def host(on: str | None) -> AsyncIterator[Any]:
        yield SimpleNamespace(runner=LocalRunner(), profile=None)

    monkeypatch.setattr(module, "open_host", host)
    monkeypatch.setattr(module, "SlurmClient", lambda runner: fake)
    return fake


def run(*words: str, answer: str = "") -> Result:
    return CliRunner().invoke(module.runs, list(words), input=answer, standalone_mode=False)


def ended(notes: Path, number: int, name: str) -> Path:  # noqa: F811
    folder = make_run(notes, number, {**RUN, "notebook": name}, name=f"{NAME[:-1]}{number}")
    put(folder / "output/state.json", {"code": 0, "time": 1_800_000_900, "seconds": 900})
    put(folder / "output/DONE", "")
    put(folder / "output/metrics.json", {"loss": 0.25})
    return folder


def test_runs_are_listed_of_all_notebooks_or_of_one(
    notes: Path,  # noqa: F811
    slurm: FakeSlurm,
) -> None:
    assert "No runs yet" in run().output
    ended(notes, 1, "train.ipynb")
    ended(notes, 2, "other.ipynb")
    shown = run().output
    assert "train.ipynb" in shown and "other.ipynb" in shown and "loss 0.25" in shown
    rows = json.loads(run("sub/train.ipynb", "--json").stdout)
    assert [(row["job_id"], row["runs"][0]["state"]) for row in rows] == [("1", "done")]
    assert "No runs of none.ipynb" in run("none.ipynb").output


def test_a_silent_slurm_is_said(
    notes: Path,  # noqa: F811
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run(notes, 3)

    async def silent() -> list[Any]:
        raise SlurmUnavailable("slurmctld is away.", "")

    monkeypatch.setattr(slurm, "my_jobs", silent)
    shown = run()
    assert "slurmctld is away" in shown.stderr and "waiting" in shown.stdout


def test_a_run_is_deleted_after_a_question_that_names_it(
    notes: Path,  # noqa: F811
    slurm: FakeSlurm,
) -> None:
    folder = ended(notes, 1, "train.ipynb")
    shown = run("--delete", "1", answer="n\n")
    assert str(folder) in shown.output and "4 files" in shown.output and folder.exists()
    assert shown.return_value == 1
    shown = run("--delete", "1", answer="y\n")
    assert shown.return_value == 0 and "Run 1 is deleted." in shown.output and not folder.exists()
    shown = run("--delete", "1", "--yes")
    assert shown.return_value == 1 and "No run is noted under 1" in shown.output


def test_a_run_in_the_queue_stays(notes: Path, slurm: FakeSlurm) -> None:  # noqa: F811
    folder = ended(notes, 1, "train.ipynb")
    slurm.queue = [job("1", state="COMPLETING")]
    shown = run("--delete", "1", "--yes")
    assert "Cancel it first" in shown.output and folder.exists() and shown.return_value == 1
