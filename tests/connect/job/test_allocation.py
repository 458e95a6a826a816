"""The job of a session on a login host that plays along: found, asked for, waited for."""

from __future__ import annotations

import dataclasses

import pytest

from jupyter_hpc.connect.events import Event, Pending, Warned
from jupyter_hpc.connect.job.allocation import Allocator, Launch, find_job
from jupyter_hpc.connect.job.remote import EXIT_LINE
from jupyter_hpc.connect.job.request import OwnJobs, request_for, session_name
from jupyter_hpc.errors import SessionEnded, SlurmUnavailable, SubmitRejected
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Request
from tests.connect.job.world import ACCOUNT, STATE, FakeJob, World, profile
from tests.slurm.runners import recording

NAME = "jupyter-hpc-mini"
PROFILE = profile(allocation={"gpus": 1})
REQUEST = request_for(PROFILE, PROFILE.allocation, NAME)


class Site:
    """An allocator with all that it says and learns."""

    def __init__(
        self, world: World, *, asked: str | None = None, learnt: str = "", writable: bool = True
    ) -> None:
        self.events: list[Event] = []
        self.learnt: list[tuple[str, str]] = []
        self.launch = Launch(
            asked,
            learnt,
            "salloc",
            lambda launch, launch_reason: self.learnt.append((launch, launch_reason)),
        )
        account = dataclasses.replace(ACCOUNT, writable=writable)
        slurm = SlurmClient(world)
        self.asked = OwnJobs()
        self.allocator = Allocator(
            PROFILE, account, world, slurm, self.launch, self.events.append, self.asked
        )

    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, Pending)]


def job(number: int, *states: str, name: str = NAME) -> FakeJob:
    return FakeJob(str(number), name, list(states) or ["RUNNING"])


def granted(number: int) -> str:
    return f"salloc: Granted job allocation {number}\n"


def pending(number: int) -> str:
    return f"salloc: Pending job allocation {number}\n"


def test_the_request_is_what_the_profile_says() -> None:
    assert Request(name=NAME, gpus=1, gpu_flag="gpus") == REQUEST
    assert session_name("mini", 3) == "jupyter-hpc-mini-3"


async def test_a_running_job_is_found_before_an_older_one_that_waits(world: World) -> None:
    world.jobs = [
        job(3, "COMPLETING"),
        job(5, "PENDING Priority"),
        job(9, "RUNNING"),
        job(7, "RUNNING"),
        job(1, "RUNNING", name="train"),
    ]
    found = await find_job(SlurmClient(world), NAME)
    assert found is not None and found.job_id == "7"


async def test_the_first_free_number_is_taken(world: World) -> None:
    world.jobs = [
        job(1),
        job(2, name=f"{NAME}-2"),
        job(3, "PENDING", name=f"{NAME}-3"),
        job(4, "COMPLETING", name=f"{NAME}-4"),
    ]
    assert await Site(world).allocator.free_number(2) == 4


async def test_a_job_that_is_granted_at_once_needs_no_waiting(world: World) -> None:
    world.salloc, world.made = [granted(7)], [job(7)]
    requested = await Site(world).allocator.submit(REQUEST)
    assert requested.running is not None and requested.running.nodes == "gpu[01-02]"
    # the log is kept where every other connect looks for it
    assert requested.log == f"{STATE}/jobs/7/salloc.log"
    assert world.files == {requested.log: granted(7)}


async def test_a_folder_that_cannot_be_written_keeps_no_log(world: World) -> None:
    world.salloc, world.made = [granted(7)], [job(7)]
    requested = await Site(world, writable=False).allocator.submit(REQUEST)
    assert requested.log.startswith("/tmp/.salloc-")
    assert "keep_log.sh" not in world.programs()


async def test_why_a_job_waits_is_told_once(world: World) -> None:
    site = Site(world)
    states = ["PENDING Priority"] * 3 + ["PENDING Resources"] * 2 + ["RUNNING"]
    world.salloc, world.made = [pending(7)], [job(7, *states)]
    began = world.clock.now
    running = await site.allocator.wait(await site.allocator.submit(REQUEST))
    assert running.job_id == "7"
    assert site.reasons() == ["Priority", "Resources"]
    # squeue was asked at the site's pace
    assert world.clock.now - began >= 3 * PROFILE.slurm.poll_seconds


async def test_the_estimate_is_told(world: World) -> None:
    site, waiting = Site(world), job(7, "PENDING Priority", "PENDING Priority", "RUNNING")
    waiting.estimated_start = 1794807438
    world.salloc, world.made = [pending(7)], [waiting]
    await site.allocator.wait(await site.allocator.submit(REQUEST))
    (told,) = (event for event in site.events if isinstance(event, Pending))
    assert told.estimated_start == 1794807438.0


async def test_the_log_of_salloc_says_at_once_that_the_job_runs(world: World) -> None:
    site = Site(world)
    world.salloc = [pending(7), pending(7) + granted(7)]
    world.made = [job(7, "PENDING Priority", "PENDING Priority", "RUNNING")]
    requested = await site.allocator.submit(REQUEST)
    began = world.clock.now
    assert (await site.allocator.wait(requested)).job_id == "7"
    assert world.clock.now - began < PROFILE.slurm.poll_seconds


async def test_of_two_jobs_of_one_moment_the_older_one_stays(world: World) -> None:
    site, ours = Site(world), job(8, "RUNNING")
    older = job(7, "PENDING Priority")  # ours may run first: it is the younger one all the same
    world.salloc, world.made = [granted(8)], [older, ours]
    requested = await site.allocator.submit(REQUEST)
    assert requested.job_id == "7"
    assert requested.log == f"{STATE}/jobs/7/salloc.log"
    assert (older.cancelled, ours.cancelled) == (False, True)
    assert site.warnings() == ["Job 7 was asked for at the same moment; using it."]


async def test_the_older_of_two_jobs_is_not_given_up_for_a_running_one(world: World) -> None:
    ours, younger = job(7, "PENDING Priority"), job(8, "RUNNING")
    world.salloc, world.made = [pending(7)], [ours, younger]
    requested = await Site(world).allocator.submit(REQUEST)
    assert requested.job is not None and requested.job.job_id == requested.job_id == "7"
    assert not ours.cancelled and not younger.cancelled


async def test_a_controller_that_falls_silent_does_not_hide_our_job(world: World) -> None:
    world.salloc, world.made = [pending(7)], [job(7, "DOWN")]
    requested = await Site(world).allocator.submit(REQUEST)
    assert (requested.job_id, requested.job) == ("7", None)


async def test_a_site_that_refuses_salloc_gets_sbatch(world: World) -> None:
    site = Site(world)
    world.salloc = [recording("salloc-refused").stderr]
    world.made = [job(7)]
    requested = await site.allocator.submit(REQUEST)
    assert (requested.job_id, requested.log) == ("7", "")
    reason = "This site refuses allocations without a batch script"
    assert site.learnt[-1] == ("sbatch", reason)
    assert site.warnings() == [f"{reason}; the session is started with sbatch instead of salloc."]
    await site.allocator.submit(REQUEST)  # learnt: salloc is not tried again
    assert world.programs().count("start_and_watch.sh") == 1


async def test_a_request_that_nobody_accepts_is_explained(world: World) -> None:
    site = Site(world)
    world.salloc = [recording("salloc-refused").stderr]
    world.test_only = "test-only-refused"
    with pytest.raises(SubmitRejected):
        await site.allocator.submit(REQUEST)
    assert site.warnings() == []


async def test_who_asked_for_salloc_gets_no_sbatch(world: World) -> None:
    site = Site(world, asked="salloc")
    world.salloc = [recording("salloc-refused").stderr]
    with pytest.raises(SubmitRejected):
        await site.allocator.submit(REQUEST)
    assert "sbatch" not in world.programs() and site.learnt == []


async def test_a_salloc_that_ends_without_a_word_was_refused(world: World) -> None:
    world.salloc = [f"{EXIT_LINE}1\n"]
    with pytest.raises(SubmitRejected):
        await Site(world, asked="salloc").allocator.submit(REQUEST)


async def test_a_silent_salloc_is_waited_for_two_minutes(world: World) -> None:
    world.salloc = [""]
    began = world.clock.now
    with pytest.raises(SlurmUnavailable, match="not said a word on login1 for 120 s") as told:
        await Site(world).allocator.submit(REQUEST)
    assert 120 <= world.clock.now - began < 150
    assert "the next connect finds" in told.value.hint


async def test_a_site_with_an_inactive_limit_gets_sbatch(world: World) -> None:
    site = Site(world)
    world.config = "InactiveLimit           = 600 sec\n"
    world.made = [job(7)]
    assert (await site.allocator.submit(REQUEST)).job_id == "7"
    ((method, reason),) = site.learnt
    assert method == "sbatch" and "after 600 s (InactiveLimit)" in reason
    assert "start_and_watch.sh" not in world.programs()


async def test_what_was_learnt_is_not_asked_again(world: World) -> None:
    first = Site(world)
    world.salloc, world.made = [granted(7)], [job(7)]
    await first.allocator.submit(REQUEST)
    assert first.learnt == [("salloc", "allocations without a shell can live here")]
    world.ran.clear()
    world.jobs, world.salloc, world.made = [], [granted(8)], [job(8)]
    await Site(world, learnt="salloc").allocator.submit(REQUEST)
    assert "scontrol" not in world.programs()


async def test_without_a_configuration_the_question_stays_open(world: World) -> None:
    site = Site(world)
    world.config, world.salloc, world.made = "", [granted(7)], [job(7)]
    assert (await site.allocator.submit(REQUEST)).job_id == "7"
    assert site.learnt == [] and site.launch.undecided


@pytest.mark.parametrize(
    ("state", "record", "text"),
    [
        ("TIMEOUT", None, "The job reached its time limit."),
        ("CANCELLED", ("CANCELLED", "1000"), "The job was cancelled by you."),
        ("CANCELLED", ("CANCELLED", "0"), "The job was cancelled by root."),
        ("CANCELLED", None, "The job was cancelled."),
        ("FAILED InactiveLimit", None, "nothing of it seemed active"),
        ("GONE", ("NODE_FAIL", ""), "A node of the job failed."),
        ("GONE", None, "Job 7 is gone, and Slurm has no record of why."),
    ],
)
async def test_a_job_that_ends_while_it_is_waited_for_says_why(
    world: World, state: str, record: tuple[str, str] | None, text: str
) -> None:
    site = Site(world)
    world.salloc, world.made = [pending(7)], [job(7, "PENDING Priority", "PENDING Priority", state)]
    if record is not None:
        world.records["7"] = record
    requested = await site.allocator.submit(REQUEST)
    with pytest.raises(SessionEnded) as told:
        await site.allocator.wait(requested)
    assert text in told.value.message
    assert told.value.hint == "Connect again to ask for a new one."


async def test_a_job_that_is_being_ended_is_asked_for_its_last_state(world: World) -> None:
    world.jobs = [job(7, *["COMPLETING"] * 5, "PREEMPTED")]
    began = world.clock.now
    assert (await Site(world).allocator.why_ended("7")).cause == "preempted"
    assert 2 <= world.clock.now - began <= 3


async def test_a_job_that_does_not_come_to_its_end_is_not_asked_for_ever(world: World) -> None:
    world.jobs = [job(7, "COMPLETING")]
    began = world.clock.now
    ended = await Site(world).allocator.why_ended("7")
    assert ended.state == "COMPLETING" and ended.text.startswith("The job is being ended, and its")
    assert world.clock.now - began == 15


@pytest.mark.parametrize(
    ("state", "cause"), [("NODE_FAIL", "node_failure"), ("TIMEOUT", "time_limit")]
)
async def test_what_the_record_says_of_a_job_whose_node_does_not_answer_is_told(
    world: World, state: str, cause: str
) -> None:
    world.jobs, world.records["7"] = [job(7, "COMPLETING")], (state, "")
    assert (await Site(world).allocator.why_ended("7")).cause == cause


async def test_a_controller_that_does_not_answer_is_told_once(world: World) -> None:
    site = Site(world)
    states = ["PENDING Priority", "DOWN", "DOWN", "DOWN", "PENDING Priority", "DOWN", "RUNNING"]
    world.salloc, world.made = [pending(7)], [job(7, *states)]
    await site.allocator.wait(await site.allocator.submit(REQUEST))
    assert len(site.warnings()) == 2  # each time that it falls silent
    assert all("does not answer" in text for text in site.warnings())
    assert all(text.endswith("Still waiting for the job.") for text in site.warnings())


async def test_a_job_of_sbatch_is_waited_for_without_a_log(world: World) -> None:
    site = Site(world, asked="sbatch")
    world.made = [job(7, "PENDING Priority", "PENDING Priority", "RUNNING")]
    requested = await site.allocator.submit(REQUEST)
    assert requested.log == "" and requested.running is None
    assert (await site.allocator.wait(requested)).job_id == "7"
    assert "watch_file.sh" not in world.programs()
