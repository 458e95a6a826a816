"""`submit --wait` outlives the moments in which the cluster does not answer."""

from __future__ import annotations

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.cli import submit as command
from jupyter_hpc.errors import HpcError, PermissionRefused, SlurmUnavailable
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job


class _Queue(SlurmClient):
    """A queue that answers with these errors first, and is then empty."""

    errors: list[HpcError]

    async def my_jobs(self, *_: Any, **__: Any) -> list[Job]:
        if self.errors:
            raise self.errors.pop(0)
        return []


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        return None

    async def code(*_: object) -> int:
        return 3

    monkeypatch.setattr("jupyter_hpc.cli.submit.asyncio.sleep", at_once)
    monkeypatch.setattr(command, "exit_code", code)


async def test_a_person_sees_how_far_the_job_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def row(state: str, task: str = "1") -> Job:
        values: dict[str, Any] = dict.fromkeys(field.name for field in dataclasses.fields(Job))
        own = {
            "id": f"5_{task}",
            "array_id": "5",
            "nodes": f"n{task}",
            "reason": "Priority",
        }
        return Job(**{**values, **own, "state": state})

    looks = [
        [row("PENDING")],
        [row("PENDING")],
        [row("RUNNING"), row("PENDING", "2")],
        [row("RUNNING"), row("RUNNING", "2")],
        [],
    ]

    class Queue(SlurmClient):
        async def my_jobs(self, *_: Any, **__: Any) -> list[Job]:
            return looks.pop(0)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    await command._wait(Queue(LocalRunner()), LocalRunner(), "5")
    waiting, *lines = capsys.readouterr().err.splitlines()
    assert waiting.startswith("Waiting: ")
    assert lines == [
        "Running: 5_1 on n1",
        "Running: 5_1 on n1, 5_2 on n2",
        "Slurm has no record of job 5 any more.",
    ]


async def test_a_controller_that_is_restarted_does_not_end_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = _Queue(LocalRunner())
    queue.errors = [SlurmUnavailable("No answer.") for _ in range(5)]
    assert await command._wait(queue, LocalRunner(), "5") == 3
    queue.errors = [PermissionRefused("No.")]
    with pytest.raises(PermissionRefused):
        await command._wait(queue, LocalRunner(), "5")
    monkeypatch.setattr(command, "_MAX_SILENCE_SECONDS", -1.0)
    queue.errors = [SlurmUnavailable("No answer.")]
    with pytest.raises(SlurmUnavailable):
        await command._wait(queue, LocalRunner(), "5")


async def test_the_site_s_pauses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("jupyter_hpc.cli.submit.asyncio.sleep", note)
    looks = 20

    class Queue(SlurmClient):
        async def my_jobs(self, *_: Any, **__: Any) -> list[Job]:
            nonlocal looks
            looks -= 1
            if looks:
                raise SlurmUnavailable("The controller does not answer.")
            return []

    await command._wait(Queue(LocalRunner()), LocalRunner(), "5", 60)
    assert max(pauses) == 60


async def test_a_job_whose_folder_is_gone_at_its_end_has_not_simply_ended_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Queue(SlurmClient):
        async def my_jobs(self, *_: Any, **__: Any) -> list[Job]:
            return []

        async def job_detail(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(exit_code=0)

    async def no_code(*_: object) -> None:
        return None

    monkeypatch.setattr(command, "exit_code", no_code)

    async def ended(*_: object) -> tuple[str, bool]:
        return "The job ended without an error.", True

    async def nothing(*_: object, **__: object) -> dict[str, Any]:
        return {}

    async def folder(*_: object) -> str:
        return "/home/alice/run"

    monkeypatch.setattr(command, "ending_of", ended)
    monkeypatch.setattr(command, "left_by", nothing)
    monkeypatch.setattr(command, "missing_files", nothing)
    monkeypatch.setattr("jupyter_hpc.batch.runs.endings.find_run", folder)
    assert await command._wait(Queue(LocalRunner()), LocalRunner(), "5") == 1
    told = capsys.readouterr().err
    assert "/home/alice/run/output: was that folder deleted" in told
    assert "without an error." not in told
