"""A session that cannot be opened: its job is given back, or the error names it."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.serving import ServerGone
from jupyter_hpc.errors import (
    HostKeyChanged,
    HpcError,
    LaunchFailed,
    PipeRefused,
    RelayGone,
    SessionEnded,
    SessionTaken,
    SlurmUnavailable,
    Unreachable,
)
from tests.connect.session.supervised import Cluster
from tests.waiting import until

WAYS = "Come back: jupyter-hpc connect ulysses. End it: jupyter-hpc stop ulysses."


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


async def failure(cluster: Cluster, *, keep: bool = False) -> HpcError:
    with pytest.raises(HpcError) as raised:
        await cluster.supervisor(keep=keep).run()
    return raised.value


async def test_what_fails_before_jupyter_answers_cancels_the_job(cluster: Cluster) -> None:
    cluster.servers = [LaunchFailed("Environment line 1 failed.", "Try it.")]
    told = await failure(cluster)
    assert (told.message, told.hint) == (
        "Environment line 1 failed. Job 7 was cancelled.",
        "Try it.",
    )
    assert cluster.cancelled == ["7"]


@pytest.mark.parametrize(
    "refusal", [PipeRefused("No transport reaches cpu01."), HostKeyChanged("Another key.")]
)
async def test_a_node_that_is_not_reached_costs_nothing(
    cluster: Cluster, refusal: HpcError
) -> None:
    cluster.connections.refusals = [refusal]
    assert (await failure(cluster)).message.endswith("Job 7 was cancelled.")
    assert cluster.cancelled == ["7"]


async def test_a_relay_that_is_gone_is_explained_by_jupyters_end(cluster: Cluster) -> None:
    cluster.connections.refusals = [RelayGone("On cpu01 no relay answers.")]
    assert (await failure(cluster)).message == (
        "Jupyter ended as soon as it was started. Job 7 was cancelled."
    )


async def test_an_error_that_nobody_expected_gives_the_job_back(cluster: Cluster) -> None:
    cluster.servers = [ZeroDivisionError("a bug")]
    told = await failure(cluster)
    assert "ZeroDivisionError" in told.message and told.message.endswith("Job 7 was cancelled.")
    assert isinstance(told.__cause__, ZeroDivisionError)


async def test_lines_of_the_cluster_end_before_what_became_of_the_job(cluster: Cluster) -> None:
    cluster.servers = [LaunchFailed("It wrote:\nlast line")]
    assert (await failure(cluster)).message == "It wrote:\nlast line\nJob 7 was cancelled."


async def test_a_line_of_the_user_s_at_the_end_is_not_run_into(cluster: Cluster) -> None:
    cluster.servers = [LaunchFailed("Environment line 1 ended the shell: exit 0")]
    assert (await failure(cluster)).message == (
        "Environment line 1 ended the shell: exit 0\nJob 7 was cancelled."
    )


async def test_keep_keeps_it_and_names_the_commands(cluster: Cluster) -> None:
    cluster.servers = [LaunchFailed("Environment line 1 failed.")]
    told = await failure(cluster, keep=True)
    assert told.message == f"Environment line 1 failed. Job 7 stays (--keep). {WAYS}"
    assert cluster.cancelled == []


async def test_an_adopted_job_is_never_cancelled(cluster: Cluster) -> None:
    cluster.own = False
    cluster.servers = [LaunchFailed("Environment line 1 failed.")]
    told = await failure(cluster)
    assert told.message == f"Environment line 1 failed. Job 7 stays. {WAYS}"
    assert cluster.cancelled == []


async def test_an_adopted_job_that_has_ended_is_not_said_to_stay(cluster: Cluster) -> None:
    cluster.own, cluster.over = False, True
    cluster.servers = [LaunchFailed("No step could be started in job 7.")]
    told = await failure(cluster)
    assert told.message == "No step could be started in job 7. The time limit was reached."


async def test_a_job_in_which_somebody_has_worked_is_not_cancelled(cluster: Cluster) -> None:
    """There may be files of the user's on its node, and only there."""
    cluster.servers = [False, LaunchFailed("The home folder is full.")]
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: "ready" in cluster.listener.names)
    cluster.connections.refusals = []
    cluster.fail_pipes(ServerGone())
    with pytest.raises(LaunchFailed) as raised:
        await running
    assert raised.value.message == f"The home folder is full. Job 7 stays. {WAYS}"
    assert cluster.cancelled == []


async def test_a_job_that_has_ended_by_itself_says_so(cluster: Cluster) -> None:
    cluster.over = True
    cluster.servers = [LaunchFailed("No step could be started in job 7.")]
    told = await failure(cluster)
    assert told.message == "No step could be started in job 7. The time limit was reached."
    assert cluster.cancelled == []


@pytest.mark.parametrize("over", [SessionEnded("It is over."), SessionTaken("Somebody else.")])
async def test_what_is_over_or_somebody_elses_is_left_alone(
    cluster: Cluster, over: HpcError
) -> None:
    cluster.servers = [over]
    told = await failure(cluster)
    assert told is over and "Job" not in told.message and cluster.cancelled == []


async def test_a_job_that_cannot_be_cancelled_is_named(cluster: Cluster) -> None:
    cluster.cancel_error = SlurmUnavailable("The controller does not answer.")
    cluster.servers = [LaunchFailed("Environment line 1 failed.")]
    told = await failure(cluster)
    assert told.message == (
        "Environment line 1 failed. Job 7 could not be cancelled and may still run: The "
        f"controller does not answer. {WAYS}"
    )


@pytest.mark.parametrize("end", ["start", "stop", "unsure", "unsure stop"])
async def test_what_could_not_be_ended_is_known(cluster: Cluster, end: str) -> None:
    """So that this laptop does not say that nothing of it runs."""
    if end.startswith("unsure"):
        cluster.asking, cluster.job_id = True, ""
    else:
        cluster.cancel_error = SlurmUnavailable("The controller does not answer.")
    if end == "unsure":
        cluster.opening = [SlurmUnavailable("salloc has not said a word.")]
    if end == "start":
        cluster.servers = [LaunchFailed("Environment line 1 failed.")]
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    if end == "stop":
        await until(lambda: "ready" in cluster.listener.names)
        supervisor.ask(SessionCommand.STOP)
    elif end == "unsure stop":
        await until(lambda: supervisor.asking)
        supervisor.ask(SessionCommand.STOP)
        assert (await running).cause == "requested"
    if end != "unsure stop":
        with pytest.raises(HpcError) as raised:
            await running
        assert "jupyter-hpc stop ulysses" in str(raised.value)
    why = "The controller does not answer."
    queued = "A job was being asked for and may be in the queue."
    said = {
        "start": f"Job 7 could not be cancelled and may still run: {why}",
        "stop": f"Job 7 could not be cancelled and may go on. {why}",
    }
    assert supervisor.unended == said.get(end, queued)


async def test_a_job_whose_number_never_came_is_looked_for(cluster: Cluster) -> None:
    cluster.asking = True
    cluster.opening = [SlurmUnavailable("salloc has not said a word.")]
    told = await failure(cluster)
    assert told.message == "salloc has not said a word. Job 7 was cancelled."
    assert cluster.cancelled == ["7"]


async def test_a_line_that_is_down_is_opened_once_more_for_it(cluster: Cluster) -> None:
    refused = PipeRefused("No transport reaches cpu01.")
    cluster.connections.refusals = [refused]
    cluster.connections.lost_with = refused
    assert (await failure(cluster)).message.endswith("Job 7 was cancelled.")
    assert cluster.connections.asked == [True, False]


async def test_what_was_refused_is_not_tried_again_for_it(cluster: Cluster) -> None:
    refused = HostKeyChanged("Another key.")
    cluster.connections.refusals = [refused]
    cluster.connections.lost_with = refused
    told = await failure(cluster)
    assert "Job 7 could not be cancelled and may still run" in told.message
    assert told.message.endswith(WAYS) and cluster.connections.asked == [True]


async def test_a_command_waits_until_the_job_is_given_back(cluster: Cluster) -> None:
    cluster.servers = [LaunchFailed("Environment line 1 failed.")]
    cluster.cancels.clear()
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: cluster.cancelling)
    supervisor.ask(SessionCommand.LEAVE)
    for _ in range(5):
        await asyncio.sleep(0)
    cluster.cancels.set()
    with pytest.raises(LaunchFailed, match="Job 7 was cancelled"):
        await running


@pytest.mark.parametrize(
    ("command", "text", "cancelled"),
    [
        (SessionCommand.LEAVE, f"Job 7 stays. {WAYS}", []),
        (SessionCommand.STOP, "Job 7 was cancelled, as asked.", ["7"]),
    ],
)
async def test_a_job_that_is_just_being_asked_for_is_looked_for(
    cluster: Cluster, command: SessionCommand, text: str, cancelled: list[str]
) -> None:
    cluster.asking = True
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: supervisor.asking)
    supervisor.ask(command)
    assert (await running).text == text
    assert cluster.cancelled == cancelled


async def test_a_job_that_may_have_been_asked_for_is_said(cluster: Cluster) -> None:
    cluster.asking, cluster.job_id = True, ""
    supervisor = cluster.supervisor()
    running = asyncio.create_task(supervisor.run())
    await until(lambda: supervisor.asking)
    supervisor.ask(SessionCommand.LEAVE)
    text = "A job was being asked for and may be in the queue."
    assert (await running).text == f"{text} {WAYS}"


async def test_a_login_that_fails_has_no_job_to_speak_of(cluster: Cluster) -> None:
    cluster.connections.logins = [HostKeyChanged("Another key.")]
    assert (await failure(cluster)).message == "Another key."


async def test_the_name_of_a_lost_hop_stays_in_the_cause(cluster: Cluster) -> None:
    cluster.servers = [Unreachable("cpu01 has gone.") for _ in range(9)]
    assert (await failure(cluster)).message == "cpu01 has gone. Job 7 was cancelled."
