"""The end of a job by the clock, where no signal is sure to come."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.training import signals
from jupyter_hpc.training.signals import MARGIN_SECONDS, EndSignals


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("JUPYTER_HPC_OUTPUT", raising=False)
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(now[0]) + 3600))
    return now


def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: list[int]) -> list[int]:
    """Answers of Slurm, one after the other; how many were asked for."""
    left = list(answers)
    monkeypatch.setattr(signals, "_end_time", lambda: left.pop(0))
    return left


def test_a_limit_that_was_put_off_is_asked_for_once_before_the_end(
    clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = int(clock[0]) + 3600
    left = squeue(tmp_path, monkeypatch, [end + 3600, end + 3600])
    heard = EndSignals()
    heard.look()
    assert len(left) == 2, "nobody is asked in the middle of a job"
    clock[0] = end - MARGIN_SECONDS + 1
    for _ in range(3):
        heard.look()
    assert not heard.time_is_short and len(left) == 1
    clock[0] += 3600
    for _ in range(3):
        heard.look()
    assert heard.time_is_short and not left


async def test_slurm_is_asked_beside_the_loop_of_a_kernel(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = int(clock[0]) + 3600

    async def job(client: Any, job_id: str) -> Any:
        assert job_id == "7"
        return SimpleNamespace(ends=end + 600)

    monkeypatch.setattr(SlurmClient, "job", job)
    heard = EndSignals()
    clock[0] = end
    heard.look()
    assert not heard.time_is_short
    clock[0] = end + 600
    heard.look()
    assert heard.time_is_short


def test_slurm_that_does_not_answer_is_not_waited_for(
    clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "squeue"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(signals, "_ASK_SECONDS", 0.5)
    heard = EndSignals()
    clock[0] += 3600
    began = time.monotonic()
    heard.look()
    assert heard.time_is_short and time.monotonic() - began < 20


def test_jobs_of_ours_rely_on_the_signal(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_HPC_OUTPUT", "/somewhere")
    heard = EndSignals()
    clock[0] += 7200
    heard.look()
    assert not heard.time_is_short
