"""What a job tells its user itself: while no laptop does, and once."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.node.services import away
from jupyter_hpc.node.services.away import IDLE_GRACE_SECONDS, TIME_GRACE_SECONDS, AwayNotices
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.telling import MARK_SCRIPT
from tests.waiting import until
from tests.webhook import Webhook, webhook

#: A moment on the job's clock at which its time limit is an hour away.
NOW = 1_000_000.0


class Job:
    """Job 7 of a session, whose end and GPUs are as the test says."""

    def __init__(self, folder: Path, hook: Webhook) -> None:
        self.folder = folder / "jobs" / "7"
        self.folder.mkdir(parents=True)
        self.hook = hook
        self.ends: float | None = NOW + 3600
        self.idle: dict[str, float | None] = {}
        self.now = NOW
        self.driver: Exception | None = None
        self.write(webhook=hook.address, gpu_idle=900)
        self.notices = AwayNotices(self.folder, "ulysses", "7", self._ends, self._gpus, Offload())

    def write(self, **settings: Any) -> None:
        (self.folder / "notify.json").write_text(json.dumps(settings), encoding="utf-8")

    async def _ends(self) -> float | None:
        return self.ends

    async def _gpus(self) -> dict[str, Any]:
        if self.driver is not None:
            raise self.driver
        gpus = [
            {"id": name, "index": index, "idle_since": since}
            for index, (name, since) in enumerate(self.idle.items())
        ]
        return {"taken_at": self.now, "gpus": gpus}

    async def at(self, seconds: float) -> list[str]:
        """A look so long after NOW; what was told up to then."""
        self.now = NOW + seconds
        await self.notices.look(self.now)
        return [told["event"] for told in self.hook.told]

    def laptop_tells(self, event: str) -> None:
        argv = ["sh", "-c", MARK_SCRIPT, "sh", str(self.folder), event, "10"]
        subprocess.run(argv, check=True, timeout=30)


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as made:
        yield made


@pytest.fixture
async def job(tmp_path: Path, hook: Webhook) -> Job:
    made = Job(tmp_path, hook)
    assert await made.notices.read_settings()
    return made


async def test_little_time_is_told_once_when_no_laptop_has(job: Job) -> None:
    assert await job.at(2900) == []
    assert await job.at(3010) == []
    assert await job.at(3010 + TIME_GRACE_SECONDS / 2) == [], "a laptop may tell it"
    for later in (TIME_GRACE_SECONDS, 120, 500):
        assert await job.at(3010 + later) == ["time-limit"]
    (told,) = job.hook.told
    assert told["title"] == "ulysses, job 7: time is short" and told["job_id"] == "7"
    assert "comes in 10 minutes. Save your notebooks" in told["text"]
    assert "s3cret" not in json.dumps(told)


async def test_what_a_laptop_has_told_is_not_told_again(job: Job) -> None:
    await job.at(3010)
    job.laptop_tells("time-limit")
    assert await job.at(3010 + 2 * TIME_GRACE_SECONDS) == []


async def test_a_limit_that_is_extended_in_time_is_not_told(job: Job) -> None:
    await job.at(3010)
    job.ends = NOW + 9000
    assert await job.at(3010 + TIME_GRACE_SECONDS) == []
    assert await job.at(8410) == [] and await job.at(8500) == ["time-limit"]


async def test_an_idle_gpu_is_told_unless_a_laptop_has(job: Job) -> None:
    job.idle = {"GPU-a": NOW, "GPU-b": None}
    assert await job.at(910) == []
    assert await job.at(910 + IDLE_GRACE_SECONDS) == ["gpu-idle"]
    assert "GPU 0 has been idle for 15 minutes." in job.hook.told[0]["text"]
    job.idle["GPU-b"] = NOW + 1500  # another stretch, which the laptop tells
    await job.at(2410)
    (job.folder / "told-gpu-idle").rmdir()
    job.laptop_tells("gpu-idle")
    assert await job.at(2410 + IDLE_GRACE_SECONDS) == ["gpu-idle"]


async def test_a_gpu_that_works_again_meanwhile_is_not_told(job: Job) -> None:
    job.idle = {"GPU-a": NOW}
    await job.at(910)
    job.idle = {"GPU-a": None}
    await job.at(940)
    assert await job.at(910 + IDLE_GRACE_SECONDS) == []


async def test_a_driver_that_fails_keeps_nothing_from_being_told(job: Job) -> None:
    job.driver = GpuUnavailable("The driver is broken.", "")
    for seconds in (3010, 3010 + TIME_GRACE_SECONDS):
        with pytest.raises(GpuUnavailable):
            await job.at(seconds)
    assert [told["event"] for told in job.hook.told] == ["time-limit"]


@pytest.mark.parametrize(
    ("folder", "settings"), [("7", {}), ("7", {"gpu_idle": 900}), ("8", {"command": ["true"]})]
)
async def test_nothing_is_looked_at_without_a_way_out_or_in_another_job(
    job: Job, folder: str, settings: dict[str, Any]
) -> None:
    """A job that is submitted from a session inherits the name of that session's file."""
    job.write(**settings)
    looked: list[int] = []

    async def ends() -> None:
        looked.append(1)

    where = job.folder.with_name(folder)
    notices = AwayNotices(where, "ulysses", "7", ends, None, Offload())
    notices.start()
    await asyncio.sleep(0.2)  # sleep: nothing happens
    await notices.stop()
    assert looked == []


async def test_it_looks_until_it_is_stopped(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "LOOK_SECONDS", 0.01)
    looked: list[int] = []

    async def ends() -> None:
        looked.append(1)

    notices = AwayNotices(job.folder, "", "7", ends, None, Offload())
    notices.start()
    await until(lambda: len(looked) > 2)
    await notices.stop()
    count = len(looked)
    await asyncio.sleep(0.05)  # sleep: nothing happens any more
    assert len(looked) == count
