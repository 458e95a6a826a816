"""Ends of batch jobs, told once by whoever is there first."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.batch.runtime.job.notify import LEASE_FILE, NOTIFY_FILE
from jupyter_hpc.batch.submit.runs import note_run, note_watched
from jupyter_hpc.connect.session.notify.batch_jobs import BatchJobWatch
from jupyter_hpc.connect.session.notify.sending import Message
from jupyter_hpc.errors import AccountingDisabled
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.states import phase_of


@dataclasses.dataclass
class Queue:
    """What Slurm says; jobs that it has forgotten are in its accounting, if that is kept."""

    rows: list[Any] = dataclasses.field(default_factory=list)
    records: list[Any] | None = None
    asked: int = 0

    def job(
        self, job_id: str, state: str, array_id: str | None = None, reason: str = "None"
    ) -> None:
        row = SimpleNamespace(
            job_id=job_id,
            array_id=array_id,
            id=f"{array_id}_[3-4]" if array_id else job_id,
            state=state,
            phase=phase_of(state),
            reason=reason,
        )
        self.rows.append(row)

    async def recent_jobs(self) -> list[Any]:
        self.asked += 1
        return self.rows

    async def finished(self, ids: list[str], *, steps: bool) -> list[Any]:
        if self.records is None:
            raise AccountingDisabled("No accounting here.", "")
        return self.records


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    for name in ("recent_jobs", "finished"):
        call = getattr(queue, name)
        monkeypatch.setattr(SlurmClient, name, lambda self, *a, _call=call, **k: _call(*a, **k))
    return queue


class World:
    """A home on the cluster with watched jobs, and a laptop that looks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = LocalRunner({"HOME": str(folder), "PATH": "/usr/bin:/bin"})
        self.told: list[Message] = []
        self.watched = folder / ".local/state/jupyter-hpc/watched"

    async def submit(self, job_id: str, notebook: str = "my train.ipynb") -> Path:
        run = self.folder / f"run of {job_id}"
        run.mkdir()
        (run / NOTIFY_FILE).write_text("{}", encoding="utf-8")
        await note_watched(self.runner, job_id, str(run), notebook)
        return run

    def watch(self) -> BatchJobWatch:
        return BatchJobWatch(self.runner, 60, self.told.append)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_nothing_is_asked_where_nothing_is_watched(world: World, queue: Queue) -> None:
    await world.watch().look()
    assert queue.asked == 0 and (world.watched / LEASE_FILE).exists()


async def test_an_end_is_told_once_by_two_laptops(world: World, queue: Queue) -> None:
    run = await world.submit("12")
    assert (world.watched / "12").stat().st_mode & 0o777 == 0o600
    laptops = [world.watch(), world.watch()]
    queue.job("12", "RUNNING")
    for laptop in laptops:
        await laptop.look()
    assert world.told == [] and (world.watched / LEASE_FILE).exists()
    queue.rows.clear()
    queue.job("12", "COMPLETED")
    for laptop in laptops * 2:
        await laptop.look()
    assert world.told == [
        Message("job-ended", "Job 12 is done", "my train.ipynb: It ended well.", "12")
    ]
    assert not (run / NOTIFY_FILE).exists() and not (world.watched / "12").exists()


async def test_a_sweep_is_over_with_its_last_run(world: World, queue: Queue) -> None:
    await world.submit("20")
    queue.job("20", "FAILED", "20")
    queue.job("21", "COMPLETED", "20")
    queue.job("22", "PENDING", "20")
    await world.watch().look()
    assert world.told == []
    queue.rows[2] = cast(Any, SimpleNamespace(**{**vars(queue.rows[2]), "state": "COMPLETED"}))
    queue.rows[2].phase = phase_of("COMPLETED")
    await world.watch().look()
    assert [(m.title, m.text) for m in world.told] == [
        ("Job 20 failed", "my train.ipynb: 1 FAILED, 2 COMPLETED.")
    ]


@pytest.mark.parametrize(
    ("records", "title"),
    [(["NODE_FAIL"], "Job 9 failed"), (["COMPLETED"], "Job 9 is done"), (None, "Job 9 has ended")],
)
async def test_a_job_that_slurm_forgot_is_told_late(
    world: World, queue: Queue, records: list[str] | None, title: str
) -> None:
    await world.submit("9")
    if records is not None:
        queue.records = [SimpleNamespace(state=state) for state in records]
    await world.watch().look()
    assert [message.title for message in world.told] == [title]


async def test_what_the_job_told_itself_is_not_told_again(world: World, queue: Queue) -> None:
    run = await world.submit("12")
    (run / NOTIFY_FILE).unlink()
    await world.watch().look()
    assert world.told == [] and queue.asked == 0
    assert not (world.watched / "12").exists()


async def test_a_chain_that_waits_for_a_person_is_told_as_held(world: World, queue: Queue) -> None:
    run = await world.submit("12")
    await note_run(world.runner, "12", str(run))
    (run / "output").mkdir()
    watch = world.watch()
    queue.job("13", "PENDING", "12", "JobHeldUser")  # by the user, who knows it
    await watch.look()
    assert world.told == []
    state = {"code": 85, "next": "held", "rest": "Held after part 2."}
    (run / "output" / "state.json").write_text(json.dumps(state), encoding="utf-8")
    for _ in range(2):
        await watch.look()
    assert [(told.event, told.title) for told in world.told] == [("job-held", "Job 12 is held")]
    assert "Held after part 2." in world.told[0].text and (run / NOTIFY_FILE).exists()
    queue.rows.clear()
    queue.job("13", "COMPLETED", "12")
    await watch.look()
    assert [told.title for told in world.told[1:]] == ["Job 12 is done"]
