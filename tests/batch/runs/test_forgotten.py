"""The end of a job that Slurm has forgotten is told from what the run has left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_hpc.batch.runs.endings import ending_of
from jupyter_hpc.errors import JobNotFound
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, JobDetail


class _Forgetful(SlurmClient):
    async def job_detail(self, job_id: str) -> JobDetail:
        raise JobNotFound(f"There is no job {job_id}.", "")

    async def finished(self, ids: object, *, steps: bool = True) -> list[FinishedJob]:
        return []


@pytest.mark.parametrize(
    ("state", "log", "said"),
    [
        ({"code": 1}, "OSError: [Errno 28] No space left on device", "No space left"),
        ({"code": 3}, "nothing that is known", "The program ended with code 3."),
        ({"code": 0}, "fine", ""),
        ({"code": 0, "rest": "Parts 2 to 3 were cancelled."}, "", "Parts 2 to 3 were cancelled."),
        (None, "", "Slurm has no record of job 7 any more."),
    ],
)
async def test_a_forgotten_job(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    state: dict[str, object] | None,
    log: str,
    said: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = tmp_path / "run"
    notes = tmp_path / "jupyter-hpc/runs"
    for folder in (run / "output", run / "logs", notes):
        folder.mkdir(parents=True)
    (notes / "7").write_text(str(run))
    (run / "logs" / "7.out").write_text(log)
    if state is not None:
        (run / "output" / "state.json").write_text(json.dumps(state))
    text, over = await ending_of(LocalRunner(), _Forgetful(LocalRunner()), "7")
    assert over
    assert said in text and bool(said) == bool(text)
