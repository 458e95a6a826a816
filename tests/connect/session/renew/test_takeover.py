"""The change to the successor, of which a cut leaves half: two jobs that are charged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.connect.events import Warned
from jupyter_hpc.connect.job.allocation import Launch, find_jobs
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.renew.renewal import Renewal
from jupyter_hpc.connect.session.renew.successor import Successor
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import Unreachable
from jupyter_hpc.runner import Completed
from jupyter_hpc.slurm.client import SlurmClient
from tests.connect.job.world import Clock, FakeJob, World, profile
from tests.connect.session.supervised import Connections, Listener
from tests.waiting import until

NAME = "jupyter-hpc-ulysses"


class Cluster(Connections):
    """The cluster of a session that has changed from job 7 to job 8; `away` while it is cut off."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.world = World(Clock(monkeypatch))
        self.old, self.new = FakeJob("7", NAME, ["RUNNING"]), FakeJob("8", NAME, ["RUNNING"])
        self.new.name += "+next"
        self.world.jobs = [self.old, self.new]
        self.away = False
        self.listener = Listener()
        launch = Launch(None, "salloc", "salloc", lambda **facts: None)
        connections = cast(ClusterConnections, self)
        options = ConnectOptions("ulysses", renew=True)
        self.context = SessionContext(profile(), options, connections, launch, self.listener)
        self.renewal = Renewal(self.context)
        self.link = SimpleNamespace(state="up", wait_up=self._wait_up)

    async def _wait_up(self, seconds: float) -> bool:
        await asyncio.sleep(0)
        return bool(self.link.state == "up")

    async def run(self, argv: Sequence[str], **named: Any) -> Completed:
        if self.away:
            raise Unreachable("There is no connection to the login host.")
        return await self.world.run(argv, **named)

    async def approach(self, node: str, job_id: str) -> None:
        assert (node, job_id) == ("cpu02", "8")

    async def change(self) -> None:
        opened = SimpleNamespace(job=SimpleNamespace(job_id="8"), node="cpu02")
        successor = SimpleNamespace(name=NAME, opened=opened, said="")
        self.renewal._ready = cast(Successor, successor)
        opener = SimpleNamespace(job_id="7")
        await self.renewal.take_over(cast(Any, opener))
        assert opener.job_id == "8"

    async def found(self) -> list[str]:
        """The session's job and its successor, as the next connect finds them."""
        jobs = await find_jobs(SlurmClient(self.world), NAME, f"{NAME}+next")
        return [job.job_id if job is not None else "" for job in jobs]

    def serving(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.renewal.run("8", cast(Link, self.link), "token"))

    @property
    def said(self) -> list[str]:
        return [event.text for event in self.listener.events if isinstance(event, Warned)]


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_successor_gets_the_name_and_the_old_job_goes(cluster: Cluster) -> None:
    await cluster.change()
    assert await cluster.found() == ["8", ""] and cluster.old.cancelled
    text = "The session goes on in job 8 on cpu02. Kernels are new. Job 7 was cancelled."
    assert cluster.said == [text]


@pytest.mark.parametrize("over", [False, True])
async def test_what_a_cut_has_left_to_do_is_done_after_it(cluster: Cluster, over: bool) -> None:
    cluster.away, cluster.link.state = True, "down"
    await cluster.change()
    assert await cluster.found() == ["7", "8"]
    (text,) = cluster.said
    assert "Job 7 could not be cancelled, and both are charged. It is tried until it is" in text
    assert cluster.renewal.offer == "", "no third job meanwhile"
    running = cluster.serving()
    for _ in range(20):
        await asyncio.sleep(0)
    cluster.link.state = "up"  # and Slurm is away for longer than that
    for _ in range(20):
        await asyncio.sleep(0)
    assert await cluster.found() == ["7", "8"] and len(cluster.said) == 1
    if over:
        cluster.old.states = ["TIMEOUT"]
    cluster.away = False
    await until(lambda: len(cluster.said) == 2)
    assert cluster.said[1] == ("Job 7 is over." if over else "Job 7 was cancelled.")
    assert await cluster.found() == ["8", ""] and cluster.old.cancelled is not over
    await end(running)
    assert cluster.world.programs().count("scontrol") == 1, "it was named once"


async def test_an_answer_that_does_not_come_holds_up_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_hpc.connect.session.renew import takeover

    monkeypatch.setattr(takeover, "_BOUND_SECONDS", 0.05)
    silent = asyncio.Event()
    answers = cluster.world.run

    async def run(argv: Sequence[str], **named: Any) -> Completed:
        await silent.wait()
        return await answers(argv, **named)

    monkeypatch.setattr(cluster.world, "run", run)
    await cluster.change()
    assert cluster.said[0].endswith("Slurm has not answered yet.")
    silent.set()
    running = cluster.serving()
    await until(lambda: cluster.said[-1] == "Job 7 was cancelled.")
    await end(running)


async def test_a_name_that_it_may_not_have_keeps_no_job(cluster: Cluster) -> None:
    """The old one goes all the same; what would take its successor for itself is not tried."""
    refusal = "scontrol: error: Access/permission denied for job 8\n"
    cluster.world.answers["scontrol"] = [(1, "", refusal)]
    await cluster.change()
    assert cluster.old.cancelled and await cluster.found() == ["", "8"]
    assert "Job 8 keeps the name of a successor: " in cluster.said[0]
    assert cluster.said[0].endswith("Job 7 was cancelled.")
    cluster.renewal.ask()
    running = cluster.serving()
    await until(lambda: len(cluster.said) == 2)
    assert "Job 8 keeps the name of one" in cluster.said[1] and not cluster.new.cancelled
    await end(running)


@pytest.mark.parametrize("away", [False, True])
async def test_who_leaves_meanwhile_leaves_one_job_or_hears_of_two(
    cluster: Cluster, away: bool
) -> None:
    cluster.away = True
    await cluster.change()
    cluster.away = away
    await cluster.renewal.give_back()
    assert cluster.old.cancelled is not away and not cluster.new.cancelled
    told = "could not be cancelled and may go on. On the cluster: scancel 7"
    assert (told in cluster.said[1]) is away
    await cluster.renewal.give_back()
    assert len(cluster.said) == 2
