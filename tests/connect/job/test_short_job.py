"""The small job that looks at a node: taken in its smallest form, waited for, given back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from jupyter_hpc.connect.job import short_job as module
from jupyter_hpc.connect.job.short_job import (
    GivenBack,
    JobNeverRan,
    ShortJob,
    Wanted,
    short_job,
    small_requests,
)
from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
from jupyter_hpc.errors import CommandTimeout, ConnectError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.models import Request
from tests.connect.job.world import FakeJob, World

NAME = "jupyter-hpc-mini+check"
ASKED = Request(name=NAME, gpus=2, gpu_type="a100", cpus=8, memory="64G", nodes=3, tasks_per_node=4)
PATIENCE = "Wait longer."


class Login:
    """The login host; what would clean up cannot be started there."""

    def __init__(self, world: World) -> None:
        self.runner: Runner = world

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess:
        raise ConnectError("no more processes", "")


class Trial:
    """One short job in a world, with what was told of it."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.told: list[str] = []
        self.ended: list[GivenBack] = []
        monkeypatch.setattr("secrets.token_hex", lambda _: "mark")
        monkeypatch.setattr(module, "time", Time(world))

    def job(self, *states: str, **values: str) -> FakeJob:
        made = FakeJob("7", NAME, list(states), values={"comment": "jupyter-hpc mark", **values})
        self.world.made.append(made)
        return made

    async def run(self, inside: Callable[[ShortJob], None] = lambda job: None) -> None:
        wanted = Wanted(small_requests(ASKED, "15"), "to look", PATIENCE, state="/state")
        login = Login(self.world)
        async with short_job(login, wanted, self.told.append, self.ended.append) as job:
            inside(job)

    def sbatch(self) -> list[tuple[str, ...]]:
        return [ran for ran in self.world.ran if ran[0] == "sbatch"]


class Time:
    """The world's clock, and the real one for moments."""

    def __init__(self, world: World) -> None:
        self.monotonic = world.clock.monotonic
        self.time = time.time


@pytest.fixture
def trial(world: World, monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(world, monkeypatch)


async def test_the_smallest_job_is_asked_for_and_given_back(trial: Trial) -> None:
    made = trial.job("PENDING Priority", "PENDING Priority", "RUNNING")
    looked: list[ShortJob] = []
    await trial.run(looked.append)
    assert [(job.job_id, job.node, job.folder) for job in looked] == [
        ("7", "gpu01", "/state/jobs/7")
    ]
    (asked,) = trial.sbatch()
    assert {"--nodes=1", "--ntasks=1", "--time=15"} <= set(asked)
    assert not [word for word in asked if word.startswith(("--gpus", "--cpus", "--mem", "--gres"))]
    assert made.cancelled and trial.ended == [GivenBack("7", guarded=False, removed=False)]
    assert "files of it may be left in jobs/7" in trial.ended[0].sentence
    first, *waits = trial.told
    assert first == (
        "Job 7 was asked for, to look: one task, 15 min at most. It is given back at the end."
    )
    assert len(waits) == 1 and "It is waited for 2 min at most." in waits[0]


async def test_where_no_small_one_is_taken_it_has_the_gpus_of_the_profile(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.job("RUNNING")
    plain = trial.world._sbatch

    def demanding(arguments: list[str]) -> tuple[int, str, str]:
        if any(word.startswith("--gpus") for word in arguments):
            return plain(arguments)
        return 1, "", "sbatch: error: Batch job submission failed: ask for a GPU\n"

    monkeypatch.setattr(trial.world, "_sbatch", demanding)
    await trial.run()
    small, whole = trial.sbatch()
    assert "--gpus-per-node=a100:2" in whole and "--gpus-per-node=a100:2" not in small
    assert {"--nodes=1", "--ntasks=1", "--time=15"} <= set(whole)
    assert trial.ended[0].job_id == "7"


async def test_one_that_does_not_start_is_given_back_and_says_what_it_waited_for(
    trial: Trial,
) -> None:
    soon = str(int(time.time()) + 1210)
    made = trial.job("PENDING None", "PENDING Priority", "PENDING Resources", started=soon)
    with pytest.raises(JobNeverRan, match=r"did not start within 2 min\. It is next") as late:
        await trial.run()
    assert late.value.hint == PATIENCE and made.cancelled and trial.ended
    assert [text.startswith("Job 7 waits: ") for text in trial.told] == [False, True, True]
    assert "Slurm expects it to start in 20 min." in trial.told[1]


async def test_one_that_can_never_start_is_not_waited_for(trial: Trial) -> None:
    made = trial.job("PENDING Priority", "PENDING BadConstraints")
    before = trial.world.clock.now
    with pytest.raises(JobNeverRan, match="can never start: No node of this cluster"):
        await trial.run()
    assert made.cancelled and trial.world.clock.now - before < 5


async def test_one_that_ends_at_once_is_said(trial: Trial) -> None:
    trial.job("PENDING Priority", "GONE")
    with pytest.raises(JobNeverRan, match="ended before its node could be looked at"):
        await trial.run()
    assert trial.ended


async def test_a_job_whose_answer_was_lost_is_found_by_its_comment(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.job("RUNNING")
    others = FakeJob("3", NAME, ["RUNNING"], values={"comment": "jupyter-hpc other"})
    trial.world.jobs.append(others)
    plain = trial.world._sbatch

    def lost(arguments: list[str]) -> tuple[int, str, str]:
        plain(arguments)
        raise CommandTimeout("sbatch did not answer", "")

    monkeypatch.setattr(trial.world, "_sbatch", lost)
    await trial.run()
    assert [ended.job_id for ended in trial.ended] == ["7"]
    assert trial.world.jobs[-1].cancelled and not others.cancelled


async def test_a_refusal_is_told_and_nothing_is_given_back(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 1, "", "sbatch: error: Batch job submission failed: Invalid qos specification\n"
    monkeypatch.setattr(trial.world, "_sbatch", lambda arguments: refused)
    with pytest.raises(JobNeverRan, match="QOS"):
        await trial.run()
    assert len(trial.sbatch()) == 2 and trial.ended == []


async def test_it_is_given_back_when_the_work_is_cancelled(trial: Trial) -> None:
    made = trial.job("PENDING Priority")
    work = asyncio.ensure_future(trial.run())
    while not trial.told:
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert made.cancelled and trial.ended


async def test_that_nobody_heard_of_its_end_is_said(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.job("RUNNING")

    def silent(arguments: list[str]) -> tuple[int, str, str]:
        raise CommandTimeout("scancel did not answer.", "")

    monkeypatch.setattr(trial.world, "_scancel", silent)
    await trial.run()
    (ended,) = trial.ended
    assert ended.sentence == (
        "Whether job 7 is cancelled could not be heard: scancel did not answer. It ends by itself, "
        "within 10 min. To look: jupyter-hpc status --all"
    )
