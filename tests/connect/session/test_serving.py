"""Why no pipe can be had: the job over, its Jupyter gone, or nobody knows yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.job.opening import OpenJob, OpenServer
from jupyter_hpc.connect.session.serving import JobOver, PipeSource, ServerGone, ServerStart
from jupyter_hpc.errors import (
    CommandFailed,
    HpcError,
    LaunchFailed,
    PipeRefused,
    RelayGone,
    Unreachable,
)
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.queue import read_jobs
from tests.connect.job.world import ACCOUNT, STATE, Clock, FakeJob, World, profile

SESSION = f"{STATE}/jobs/7"
ADDRESS = ServerAddress("gpu01", SESSION, "/tmp/jh-x", "/usr/bin/python3", "s", "t")
LIVES = (
    f"session={SESSION}\nnode=gpu01\nfolder=/tmp/jh-x\npython=/usr/bin/python3\nport=\n"
    "secret=s\ntoken=t\nlooked=yes\n"
)
#: What srun says of a node that does not answer.
LOST = (1, "", "srun: error: Task launch for StepId=7.2 failed on node gpu01\n")
GONE = RelayGone("On gpu01 no relay answers.")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(Clock(monkeypatch))


class Connections:
    """A login host that plays along, and a node behind it whose relay is not reached."""

    alive = True

    def __init__(self, world: World, refusal: HpcError) -> None:
        self.login = SimpleNamespace(runner=world)
        self.on_node: Runner = world
        self.starter: Runner = world
        self.refusal = refusal

    async def approach(self, node: str, job_id: str) -> None:
        assert (node, job_id) == ("gpu01", "7")

    async def open_pipe(self, address: ServerAddress) -> Any:
        raise self.refusal


def opened_job() -> OpenJob:
    (job,) = read_jobs(FakeJob("7", "jupyter-hpc-mini", ["RUNNING"]).row())
    return OpenJob(job, ACCOUNT)


async def why_no_pipe(world: World, refusal: HpcError = GONE) -> Exception:
    source = PipeSource(
        profile(),
        cast(Any, Connections(world, refusal)),
        opened_job(),
        ADDRESS,
        cast(Any, SimpleNamespace(state="down")),
    )
    with pytest.raises((HpcError, ServerGone, JobOver)) as raised:
        await source.open_pipe(None, False)
    return raised.value


def running(world: World, *answers: str | tuple[int, str, str], state: str = "RUNNING") -> None:
    world.jobs = [FakeJob("7", "jupyter-hpc-mini", [state])]
    world.answers["find_server.sh"] = list(answers)


@pytest.mark.parametrize("refusal", [GONE, PipeRefused("Attaching by ssh to gpu01 failed.")])
async def test_a_node_that_does_not_answer_is_no_end_of_jupyter(
    world: World, refusal: HpcError
) -> None:
    """Slurm needs minutes to see that a node is lost; until then the job runs, it says."""
    running(world, LOST)
    told = await why_no_pipe(world, refusal)
    assert isinstance(told, CommandFailed)
    assert "Task launch for StepId=7.2 failed on node gpu01" in told.message


async def test_a_node_on_which_nothing_of_jupyter_lives_is(world: World) -> None:
    running(world, "dead=/tmp/jh-x\nlooked=yes\n")
    assert isinstance(await why_no_pipe(world), ServerGone)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED"])
async def test_a_relay_that_is_away_while_jupyter_lives_is_tried_again(
    world: World, state: str
) -> None:
    running(world, LIVES, state=state)
    assert await why_no_pipe(world) is GONE


@pytest.mark.parametrize("state", ["COMPLETING", "NODE_FAIL", "CANCELLED", "PENDING", "TIMEOUT"])
async def test_a_job_that_slurm_has_ended_is_over(world: World, state: str) -> None:
    running(world, LOST, state=state)
    assert isinstance(await why_no_pipe(world), JobOver)


async def test_while_slurm_is_away_nothing_is_concluded(world: World) -> None:
    running(world, LOST, state="DOWN")
    assert await why_no_pipe(world) is GONE


# -- the first pipe ---------------------------------------------------------------------


async def first_pipe(world: World, *, found: bool) -> None:
    context = SimpleNamespace(profile=profile(), connections=Connections(world, GONE))
    await ServerStart(cast(Any, context), OpenServer(ADDRESS, found), opened_job()).first_pipe()


async def test_a_relay_that_is_just_started_again_is_waited_for(world: World) -> None:
    running(world, LIVES)
    with pytest.raises(Unreachable, match="no relay answers"):
        await first_pipe(world, found=True)


async def test_a_server_that_went_since_it_was_found_is_started_again(world: World) -> None:
    running(world, "looked=yes\n")
    with pytest.raises(ServerGone):
        await first_pipe(world, found=True)


async def test_a_server_of_our_own_that_ended_at_once_says_why(world: World) -> None:
    world.answers["await_files.sh"] = ["found=ended\ncode=3\noutput=no such option\n"]
    with pytest.raises(LaunchFailed, match="no such option"):
        await first_pipe(world, found=False)
