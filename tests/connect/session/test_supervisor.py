"""The course of a session, without a cluster: what is told, what is given back, what is raised."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from jupyter_hpc.connect.events import Ended, JupyterEnded, Ready, Warned
from jupyter_hpc.connect.job.endings import ServerEnd
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.retry import Restarts
from jupyter_hpc.connect.session.serving import JobOver, ServerGone
from jupyter_hpc.connect.tunnel.link_events import LinkDown, LinkLost, LinkUp
from jupyter_hpc.errors import (
    CommandFailed,
    ConnectError,
    LaunchFailed,
    PromptNeeded,
    SessionEnded,
    SessionTaken,
    SlurmUnavailable,
    Unreachable,
)
from jupyter_hpc.slurm.models import Request
from tests.connect.session.supervised import Cluster
from tests.waiting import until


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def warnings(cluster: Cluster) -> str:
    return " ".join(e.text for e in cluster.listener.events if isinstance(e, Warned))


async def test_from_login_to_the_time_limit(cluster: Cluster) -> None:
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    assert (supervisor.job_id, supervisor.token) == ("7", "token")
    cluster.job_over.set()
    ended = await running
    assert cluster.listener.names == ["authenticating", "running", "starting", "ready", "ended"]
    assert cluster.listener.events[3] == Ready(
        "http://localhost:24000/lab", 24000, "7", "cpu01", "ssh"
    )
    assert ended.cause == "time_limit"
    first, last = cluster.listener.links
    assert first is not None and last is None
    assert cluster.connections.closed and cluster.connections.asked == [True]
    assert cluster.listener.jobs


@pytest.mark.parametrize(
    ("command", "state", "cancelled"),
    [(SessionCommand.LEAVE, "RUNNING", []), (SessionCommand.STOP, "CANCELLED", ["7"])],
)
async def test_a_command_ends_it(
    cluster: Cluster, command: SessionCommand, state: str, cancelled: list[str]
) -> None:
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    supervisor.ask(command)
    ended = await running
    assert (ended.state, ended.cause) == (state, "requested")
    assert cluster.cancelled == cancelled and "Job 7" in ended.text


async def test_who_leaves_before_a_job_is_asked_for_leaves_none(cluster: Cluster) -> None:
    cluster.connections.login_answers.clear()
    supervisor = cluster.supervisor()
    supervisor.ask(SessionCommand.STOP)
    ended = await supervisor.run()
    assert ended == Ended("NONE", "requested", "No job was asked for.")
    assert cluster.cancelled == []


async def test_a_job_that_cannot_be_cancelled_is_named(cluster: Cluster) -> None:
    cluster.cancel_error = SlurmUnavailable("The controller does not answer.", "Wait.")
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    supervisor.ask(SessionCommand.STOP)
    with pytest.raises(ConnectError, match="Job 7 could not be cancelled and may go on"):
        await running


async def test_a_login_lost_while_opening_is_made_again(cluster: Cluster) -> None:
    cluster.opening = [Unreachable("The login host is gone.")]
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    assert cluster.listener.names[:3] == ["authenticating", "reconnecting", "reconnected"]
    assert cluster.connections.asked == [True, False]
    supervisor.ask(SessionCommand.LEAVE)
    await running


async def test_a_refused_login_ends_it_at_once(cluster: Cluster) -> None:
    cluster.connections.logins = [PromptNeeded("A password is needed.", "Type it.")]
    with pytest.raises(PromptNeeded):
        await cluster.supervisor().run()
    assert cluster.listener.names == ["authenticating"] and cluster.connections.closed


async def test_jupyter_that_died_is_started_again_in_the_same_job(cluster: Cluster) -> None:
    cluster.servers = [True, False]
    cluster.pipes = [ServerGone()]
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    assert "Jupyter ended. It is being started again in the same job." in warnings(cluster)
    assert cluster.listener.names.count("starting") == 2
    supervisor.ask(SessionCommand.LEAVE)
    await running


async def test_a_server_that_is_opened_anew_is_not_called_a_reconnection(cluster: Cluster) -> None:
    cluster.servers = [True, False]
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    assert supervisor.link is not None and supervisor.link.on_event is not None
    for event in (LinkLost(), LinkDown()):
        supervisor.link.on_event(event)
    cluster.fail_pipes(ServerGone(), once=True)
    await until(lambda: cluster.listener.names.count("starting") == 2)
    await until(lambda: supervisor.link is not None and supervisor.link.on_event is not None)
    supervisor.link.on_event(LinkUp())
    assert cluster.listener.names.count("reconnecting") == 1
    assert "reconnected" not in cluster.listener.names and "warned" not in cluster.listener.names
    supervisor.ask(SessionCommand.LEAVE)
    await running


async def test_jupyter_that_ran_out_of_memory_is_started_once_more(cluster: Cluster) -> None:
    """The second time it is left to the user, and the job stays for them."""
    cluster.servers = [True] * 3
    cluster.pipes = [ServerGone() for _ in range(3)]
    cluster.ends = [ServerEnd(True, 500 * 2**20)] * 3
    ended = await cluster.supervisor().run()
    (restarted,) = [e for e in cluster.listener.events if isinstance(e, JupyterEnded)]
    assert restarted.cause == "out_of_memory"
    assert "(500 MB) was full. It is being started again in the same job." in restarted.text
    assert "jupyter-hpc connect ulysses --mem 1000M" in restarted.text
    assert (ended.state, ended.cause) == ("RUNNING", "out_of_memory")
    assert "Job 7 stays." in ended.text and "stop ulysses" in ended.text
    assert cluster.cancelled == []


async def test_jupyter_s_end_is_judged_by_what_was_known_before(cluster: Cluster) -> None:
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    cluster.fail_pipes(ServerGone())
    with pytest.raises(LaunchFailed):
        await running
    assert cluster.known_kills[0] == 3


def test_restarts_are_counted_within_ten_minutes() -> None:
    restarts = Restarts()
    assert all(restarts.allow(out_of_memory=False, now=at) for at in (0, 1, 2))
    assert not restarts.allow(out_of_memory=False, now=3)
    assert restarts.allow(out_of_memory=False, now=700)
    assert restarts.allow(out_of_memory=True, now=701)
    assert not restarts.allow(out_of_memory=True, now=1200)
    assert restarts.allow(out_of_memory=True, now=1900)


async def test_jupyter_that_dies_at_its_start_is_not_started_for_ever(cluster: Cluster) -> None:
    cluster.pipes = [ServerGone()]
    with pytest.raises(LaunchFailed, match="ended as soon as it was started"):
        await cluster.supervisor().run()


async def test_jupyter_that_keeps_dying_is_given_up(cluster: Cluster) -> None:
    cluster.servers = [True] * 9
    cluster.pipes = [ServerGone() for _ in range(9)]
    with pytest.raises(LaunchFailed):
        await cluster.supervisor().run()
    assert cluster.listener.names.count("starting") == 4


async def test_a_job_that_is_over_says_why(cluster: Cluster) -> None:
    cluster.servers = [JobOver()]
    ended = await cluster.supervisor().run()
    assert ended.cause == "time_limit" and cluster.listener.names[-1] == "ended"


async def test_a_start_is_not_waited_for_when_its_job_is_over(cluster: Cluster) -> None:
    """Its node is lost, say: nothing more is heard of the start."""
    cluster.servers = [asyncio.Event()]
    running = asyncio.create_task(cluster.supervisor().run())
    await until(lambda: "starting" in cluster.listener.names)
    cluster.job_over.set()
    assert (await asyncio.wait_for(running, 30)).cause == "time_limit"
    assert cluster.listener.names[-1] == "ended"


@pytest.mark.parametrize("over", [True, False])
async def test_a_server_that_cannot_be_had_because_its_job_is_over_is_the_job_s_end(
    cluster: Cluster, over: bool
) -> None:
    """Jupyter is gone, and so is the node on which it would be started again."""
    cluster.servers = [False, CommandFailed("Nothing can be run on cpu01.")]
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    cluster.over = over
    cluster.fail_pipes(ServerGone())
    if over:
        assert (await running).cause == "time_limit"
    else:
        with pytest.raises(CommandFailed, match=r"cpu01\. Job 7 stays\."):
            await running


async def test_a_session_taken_over_is_an_error(cluster: Cluster) -> None:
    cluster.servers = [True]
    cluster.pipes = [SessionTaken("Another jupyter-hpc has taken over.")]
    with pytest.raises(SessionTaken):
        await cluster.supervisor().run()


async def test_what_a_user_should_know_is_told_once(cluster: Cluster) -> None:
    cluster.extension = False
    cluster.connections.transport = "direct"
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: cluster.listener.names.count("warning") == 2)
    assert "TCP port" in warnings(cluster) and "pip install jupyter-hpc" in warnings(cluster)
    supervisor.ask(SessionCommand.LEAVE)
    await running


async def test_the_session_waits_for_a_successor_that_outlives_its_job(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = cluster.supervisor()
    maker = SimpleNamespace(job_id="8", own=True)
    monkeypatch.setattr(supervisor.renewal, "hand_over", lambda: maker)
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    cluster.successor = "8"
    cluster.job_over.set()
    await until(lambda: cluster.listener.names.count("ready") == 2)
    assert cluster.followed[0] == ("8", True) and supervisor.job_id == "8"
    assert "The time limit was reached. Job 8 was asked for before that" in warnings(cluster)
    assert "ended" not in cluster.listener.names
    monkeypatch.setattr(supervisor.renewal, "hand_over", lambda: None)
    supervisor.ask(SessionCommand.STOP)
    assert (await running).text == "Job 8 was cancelled, as asked."
    assert cluster.cancelled == ["8"]


@pytest.mark.parametrize("when", ["at once", "while it is waited for"])
async def test_a_session_whose_successor_is_over_as_well_has_ended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Somebody has stopped both: nothing is asked for, and the page says how it ended."""
    supervisor = cluster.supervisor()
    maker = SimpleNamespace(job_id="8", own=True)
    monkeypatch.setattr(supervisor.renewal, "hand_over", lambda: maker)
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    cluster.successor, cluster.over = "8", when == "at once"
    cluster.opening = [SessionEnded("The job was cancelled.")]
    cluster.job_over.set()
    ended = await running
    assert ended.cause == "time_limit" and cluster.listener.names[-1] == "ended"
    assert cluster.followed == ([] if cluster.over else [("8", True)])
    assert ("Job 8, which was to take this session over, has ended" in ended.text) is cluster.over


async def test_the_next_job_is_like_the_one_that_was_found(cluster: Cluster) -> None:
    cluster.shape = Request(time="8:00:00", gpus=4)
    supervisor = cluster.supervisor(overrides={"gpus": 1})
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    assert supervisor.shape == cluster.shape
    asked = supervisor._context.request("n")
    assert (asked.name, asked.time, asked.gpus) == ("n", "8:00:00", 4)
    supervisor.ask(SessionCommand.LEAVE)
    await running


async def test_stopping_ends_a_successor_that_was_left(cluster: Cluster) -> None:
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    assert supervisor._opener is not None
    supervisor._opener.successor_id = "8"
    supervisor.ask(SessionCommand.STOP)
    assert "Job 8, which was to take this session over, was cancelled" in (await running).text
    assert cluster.cancelled == ["7", "8"]


async def test_leaving_says_that_the_successor_is_cancelled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    given_back = ["8", ""]

    async def give_back(*, stop: bool = False) -> str:
        return given_back.pop(0)

    monkeypatch.setattr(supervisor.renewal, "give_back", give_back)
    supervisor.ask(SessionCommand.LEAVE)
    text = (await running).text
    assert text.startswith("Job 7 stays.") and "Job 8, which was to take" in text
