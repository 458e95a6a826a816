"""Opening a session on a login host that plays along: its job, and the server in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from jupyter_hpc.connect.events import Event, Pending, Warned
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.job.opening import (
    JobOpener,
    OpenJob,
    node_names,
    open_server,
    server_lives,
    why_jupyter_ended,
)
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.errors import (
    CommandTimeout,
    ConnectError,
    SessionEnded,
    SubmitRejected,
    Unreachable,
    UnreadableAnswer,
    UsageError,
)
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.queue import read_jobs
from tests.connect.job.test_existing import Answers
from tests.connect.job.world import ACCOUNT, PREPARED, STATE, FakeJob, World, profile

NAME = "jupyter-hpc-mini"
PROFILE = profile(
    allocation={"gpus": 1, "partition": "gpu"},
    presets={
        "big": {"gpus": 4},
        "alone": {"gpus": 2, "extra": ["--exclusive"]},
        "four": {"gpus": 4, "extra": ["--exclusive"]},
    },
)
SESSION = f"{STATE}/jobs/7"
ADDRESS = "node=gpu01\nfolder=/tmp/jh-x\npython=/usr/bin/python3\nport=\njupyter_pid=17\n"


def job(number: int, *states: str, name: str = NAME, **values: str) -> FakeJob:
    return FakeJob(str(number), name, list(states) or ["RUNNING"], values=values)


class Opening:
    """A JobOpener with all that it says, learns and counts."""

    def __init__(
        self,
        world: World,
        options: ConnectOptions | None = None,
        learnt: str = "salloc",
        answers: Sequence[str] = (),
        shape: Request | None = None,
    ) -> None:
        self.person = Answers(*answers)
        world.answers.setdefault("prepare.sh", [PREPARED])
        self.events: list[Event] = []
        self.learnt: list[str] = []
        self.numbers: list[int] = []
        self.launch = Launch(None, learnt, "salloc", lambda launch, **_: self.learnt.append(launch))
        self.opener = JobOpener(
            PROFILE,
            options or ConnectOptions("mini"),
            self.launch,
            world,
            self.events.append,
            self._on_number,
            self.person,
            shape,
        )

    async def _on_number(self, number: int) -> None:
        self.numbers.append(number)

    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]


def grants(world: World, number: int, *states: str, name: str = NAME) -> None:
    """What is asked for next becomes job `number`."""
    words = "Granted" if not states else "Pending"
    world.salloc = [f"salloc: {words} job allocation {number}\n"]
    world.made = [job(number, *states, name=name)]


async def test_a_job_that_exists_is_adopted(world: World) -> None:
    world.jobs = [job(7)]
    opening = Opening(world)
    opened = await opening.opener.open()
    assert (opened.job.job_id, opened.node, opening.opener.job_id) == ("7", "gpu01", "7")
    assert opened.account == ACCOUNT
    assert opening.events == []
    assert sorted(world.programs()) == ["prepare.sh", "scontrol", "squeue"]


async def test_a_job_that_is_what_is_asked_for_is_used_without_a_word(world: World) -> None:
    world.jobs = [job(7, gres_job="gpu:2")]
    opening = Opening(world, ConnectOptions("mini", overrides={"gpus": 2}))
    assert (await opening.opener.open()).job.job_id == "7"
    assert opening.events == [] and opening.person.asked == []


@pytest.mark.parametrize(
    "options",
    [ConnectOptions("mini", preset="big"), ConnectOptions("mini", overrides={"gpus": 4})],
)
async def test_without_a_person_a_job_that_differs_is_neither_used_nor_cancelled(
    world: World, options: ConnectOptions
) -> None:
    world.jobs = [job(7)]
    opening = Opening(world, options)
    with pytest.raises(UsageError) as told:
        await opening.opener.open()
    assert told.value.message == (
        "Job 7 of mini exists, and is not what is asked for: GPUs 0 instead of 4."
    )
    assert "jupyter-hpc connect mini --new" in told.value.hint
    assert opening.opener.job_id == "" and not world.jobs[0].cancelled


async def test_a_person_may_use_what_differs(world: World) -> None:
    world.jobs = [job(7)]
    opening = Opening(world, ConnectOptions("mini", preset="big"), answers=["u"])
    assert (await opening.opener.open()).job.job_id == "7" and not opening.opener.own
    await opening.opener.open()  # after a cut nobody is asked again
    assert len(opening.person.asked) == 1


async def test_a_person_may_replace_what_differs(world: World) -> None:
    world.jobs = [old := job(7)]
    grants(world, 8)
    opening = Opening(world, ConnectOptions("mini", preset="big"), answers=["r"])
    assert (await opening.opener.open()).job.job_id == "8" and opening.opener.own
    assert old.cancelled
    assert opening.warnings() == ["Job 7 was cancelled; another one is asked for."]


#: A job of four GPUs, in a record of scontrol.
FOUR = """   Account=ml QOS=high
   TimeLimit=04:00:00 Partition=gpu
   NumNodes=1 NumCPUs=8 NumTasks=1 CPUs/Task=8
   MinMemoryNode=16G Features=(null) OverSubscribe=OK
   TresPerJob=gres:gpu:4
"""


@pytest.mark.parametrize("options", [{}, {"overrides": {"gpus": 2, "time": "1:00:00"}}])
async def test_the_job_after_one_that_was_found_is_like_it(
    world: World, options: dict[str, Any]
) -> None:
    """Whatever this command line asks for: a person has set it aside to use the job."""
    world.jobs = [found := job(7, gres_job="gpu:4")]
    found.asked = FOUR
    opening = Opening(world, ConnectOptions("mini", **options), answers=["u"])
    await opening.opener.open()
    shape = opening.opener.shape
    assert shape is not None and shape.name == NAME
    world.jobs = []
    grants(world, 8)
    again = Opening(world, ConnectOptions("mini", **options), shape=shape)
    await again.opener.open()
    (salloc,) = (words for words in world.ran if "salloc" in words)
    assert salloc[5:-1] == (
        f"--job-name={NAME}",
        *("--partition=gpu", "--account=ml", "--qos=high", "--time=04:00:00", "--nodes=1"),
        *("--cpus-per-task=8", "--mem=16G", "--gpus=4"),
    )
    assert again.opener.own and again.opener.shape == shape


@pytest.mark.parametrize(("preset", "extra"), [("alone", ()), ("four", ("--exclusive",))])
async def test_options_that_are_set_aside_are_not_for_the_next_job(
    world: World, preset: str, extra: tuple[str, ...]
) -> None:
    """Slurm does not say all that a preset asks for; one that the job agrees with has made it."""
    world.jobs = [found := job(7, gres_job="gpu:4")]
    found.asked = FOUR
    opening = Opening(world, ConnectOptions("mini", preset=preset), answers=["u"])
    await opening.opener.open()
    shape = opening.opener.shape
    assert shape is not None and (shape.gpus, shape.extra) == (4, extra)


async def test_what_is_asked_for_instead_of_a_job_is_not_like_another_one(world: World) -> None:
    world.jobs = [job(7)]
    grants(world, 8)
    options = ConnectOptions("mini", preset="big")
    opening = Opening(world, options, answers=["r"], shape=Request(gpus=2))
    await opening.opener.open()
    (salloc,) = (words for words in world.ran if "salloc" in words)
    assert "--gpus=4" in salloc and opening.opener.shape is None


async def test_a_job_whose_request_is_not_told_is_used_all_the_same(world: World) -> None:
    world.jobs = [job(7)]
    world.answers["scontrol"] = [_no_answer]
    opening = Opening(world)
    assert (await opening.opener.open()).job.job_id == "7" and opening.opener.shape is None
    (said,) = opening.warnings()
    assert said.startswith("What job 7 was asked for could not be read, so a job after it")


async def test_nothing_is_replaced_by_what_cannot_be_had(world: World) -> None:
    world.jobs = [old := job(7)]
    options = ConnectOptions("mini", overrides={"gpus": 4, "time": "99:00:00"})
    opening = Opening(world, options, answers=["r"])
    with pytest.raises(SubmitRejected, match="longer than partition gpu allows"):
        await opening.opener.open()
    assert not old.cancelled and opening.person.asked == []


async def test_a_person_may_open_a_further_session(world: World) -> None:
    world.jobs = [old := job(7)]
    grants(world, 8, name=f"{NAME}-2")
    opening = Opening(world, ConnectOptions("mini", preset="big"), answers=["f"])
    assert (await opening.opener.open()).job.job_id == "8" and opening.opener.own
    assert opening.numbers == [2] and not old.cancelled


async def test_what_the_partition_does_not_allow_is_not_queued(world: World) -> None:
    opening = Opening(world, ConnectOptions("mini", overrides={"time": "99:00:00"}))
    with pytest.raises(SubmitRejected) as told:
        await opening.opener.open()
    assert told.value.message == "99:00:00 is longer than partition gpu allows (04:00:00)."
    assert told.value.hint == "Ask for at most 04:00:00."
    assert "start_and_watch.sh" not in world.programs()


async def test_limits_that_are_not_told_do_not_stop_anybody(world: World) -> None:
    world.answers["sinfo"] = [_no_answer]
    grants(world, 7)
    opening = Opening(world, ConnectOptions("mini", overrides={"time": "99:00:00"}))
    assert (await opening.opener.open()).job.job_id == "7"


def _no_answer(*_: str) -> str:
    raise CommandTimeout("sinfo took 30 s.")


@pytest.mark.parametrize("adopted", [False, True])
async def test_a_job_that_can_never_start_is_not_waited_for(world: World, adopted: bool) -> None:
    waiting = ["PENDING Priority", *["PENDING PartitionTimeLimit"] * 9]
    if adopted:
        world.jobs = [job(7, *waiting)]
    else:
        grants(world, 7, *waiting)
    opening = Opening(world)
    began = world.clock.now
    with pytest.raises(SubmitRejected) as told:
        await opening.opener.open()
    assert told.value.message == (
        "Job 7 can never start: Its time limit is longer than the partition allows. "
        "(Slurm says PartitionTimeLimit.)"
    )
    assert world.clock.now - began < 2 * PROFILE.slurm.poll_seconds + 10
    assert (opening.opener.job_id, opening.opener.own) == ("7", not adopted)


async def test_a_reason_that_goes_away_was_none(world: World) -> None:
    never, waits = "PENDING BadConstraints", "PENDING Priority"
    grants(world, 7, never, never, waits, never, "RUNNING")
    assert (await Opening(world).opener.open()).job.job_id == "7"


async def test_an_adopted_job_that_waits_is_waited_for_by_the_log_of_its_salloc(
    world: World,
) -> None:
    world.jobs = [job(7, "PENDING Priority", "PENDING Priority", "RUNNING")]
    world.files[f"{SESSION}/salloc.log"] = "salloc: Pending job allocation 7\n"
    world.salloc = [world.files[f"{SESSION}/salloc.log"] + "salloc: Granted job allocation 7\n"]
    began = world.clock.now
    assert (await Opening(world).opener.open()).node == "gpu01"
    assert world.clock.now - began < PROFILE.slurm.poll_seconds


async def test_a_job_is_asked_for_as_the_profile_and_the_command_line_say(world: World) -> None:
    grants(world, 7)
    options = ConnectOptions("mini", preset="big", overrides={"time": "2:00:00"})
    opening = Opening(world, options)
    assert (await opening.opener.open()).job.job_id == "7"
    (salloc,) = (words for words in world.ran if "salloc" in words)
    assert salloc[3:] == (
        "salloc",
        "--no-shell",
        f"--job-name={NAME}",
        "--partition=gpu",
        "--time=2:00:00",
        "--gpus=4",
        f"--comment={mark(world)}",
    )
    assert opening.events == []


async def test_whose_job_it_is_is_known(world: World) -> None:
    """What another connect asked for must never be cancelled with ours."""
    grants(world, 7)
    opening = Opening(world)
    await opening.opener.open()
    assert opening.opener.own and not opening.opener.asking
    await opening.opener.open()  # after a cut it is still ours
    assert opening.opener.own
    other = Opening(world)
    await other.opener.open()
    assert other.opener.job_id == "7" and not other.opener.own


async def test_of_two_jobs_of_one_moment_the_older_is_not_ours(world: World) -> None:
    grants(world, 7)
    world.made = [job(6), job(7)]
    opening = Opening(world)
    await opening.opener.open()
    assert opening.opener.job_id == "6" and not opening.opener.own


def mark(world: World) -> str:
    """The comment of the job that was asked for last."""
    asked = next(words for words in reversed(world.ran) if {"salloc", "--parsable"} & {*words})
    return next(word for word in asked if word.startswith("--comment=")).partition("=")[2]


async def cut_off(world: World) -> Opening:
    """A connect that has asked for a job, and has lost the connection before its number came."""

    def cut(*_: str) -> str:
        raise Unreachable("The login host is gone.")

    world.answers["start_and_watch.sh"] = [cut]
    opening = Opening(world)
    with pytest.raises(Unreachable):
        await opening.opener.open()
    assert opening.opener.asking and not opening.opener.own
    del world.answers["start_and_watch.sh"]
    return opening


async def test_a_job_that_was_being_asked_for_is_found(world: World) -> None:
    opening = await cut_off(world)
    assert await opening.opener.asked_for() == ""
    world.jobs = [job(8, comment="another connect's"), job(9, comment=mark(world))]
    assert await opening.opener.asked_for() == "9"
    assert opening.opener.own and not opening.opener.asking


async def test_a_job_whose_number_a_cut_has_lost_is_ours(world: World) -> None:
    opening = await cut_off(world)
    world.jobs = [job(9, comment=mark(world))]
    assert (await opening.opener.open()).job.job_id == "9"
    assert opening.opener.own and not world.jobs[0].cancelled


async def test_what_another_connect_asked_for_in_that_moment_is_not(world: World) -> None:
    opening = await cut_off(world)
    world.jobs = [job(9, comment="jupyter-hpc 0123456789abcdef")]
    assert (await opening.opener.open()).job.job_id == "9"
    assert not opening.opener.own


async def test_a_job_that_comes_after_another_was_asked_for_is_cancelled(world: World) -> None:
    opening = await cut_off(world)
    grants(world, 8)
    late = job(9, comment=mark(world))
    world.made.append(late)
    assert (await opening.opener.open()).job.job_id == "8"
    assert opening.opener.own and late.cancelled and not world.jobs[0].cancelled


async def test_a_refusal_leaves_no_doubt(world: World) -> None:
    world.salloc = ["salloc: error: Job submit/allocate failed: Invalid account\n"]
    world.test_only = "test-only-refused"
    opening = Opening(world)
    with pytest.raises(SubmitRejected):
        await opening.opener.open()
    assert not opening.opener.asking


async def test_a_further_session_takes_the_next_free_number(world: World) -> None:
    world.jobs = [job(5), job(6, name=f"{NAME}-2")]
    grants(world, 7, name=f"{NAME}-3")
    opening = Opening(world, ConnectOptions("mini", new=True, number=2))
    assert (await opening.opener.open()).job.job_id == "7"
    assert opening.numbers == [3]
    # after a cut the session is the same: no further number, no further job
    assert (await opening.opener.open()).job.job_id == "7"
    assert opening.numbers == [3]
    assert world.programs().count("start_and_watch.sh") == 1


async def test_a_home_that_cannot_be_written_is_said(world: World) -> None:
    lines = [line for line in PREPARED.splitlines() if not line.startswith(("token", "cookie"))]
    unwritable = "\n".join(lines).replace("writable=yes", "writable=no")
    world.answers["prepare.sh"] = [unwritable]
    grants(world, 7)
    opening = Opening(world)
    opened = await opening.opener.open()
    (warning,) = opening.warnings()
    assert warning.startswith("The home folder on login1 cannot be written")
    assert not opened.account.writable
    # secrets of this session only, which nobody can guess
    assert len(opened.account.token) == len(opened.account.cookie_secret) == 64
    assert "keep_log.sh" not in world.programs()


async def test_a_login_host_without_a_shell_is_said(world: World) -> None:
    world.answers["prepare.sh"] = ["This account is currently not available.\n"]
    with pytest.raises(ConnectError, match="did not run a simple script: This account is"):
        await Opening(world).opener.open()


WAITED = "salloc: Pending job allocation 7\nsalloc: job 7 queued and waiting for resources\n"
INTERRUPTED = WAITED + "salloc: Job aborted due to signal\njupyter-hpc: exit 1\n"
CANCELLED = (
    f"{WAITED}salloc: Job has been cancelled\nsalloc: error: Job submit/allocate failed: "
    "Job/step already completing or completed\njupyter-hpc: exit 1\n"
)


async def waited_in_vain(world: World, log: str | None, state: str = "CANCELLED") -> Opening:
    """A connect whose job is gone when the connection is back; its salloc has left this log."""
    opening = Opening(world)
    grants(world, 7, "PENDING Priority", "PENDING Priority", state)
    with pytest.raises(SessionEnded):
        await opening.opener.open()  # stands for a cut while it waits
    if log is None:
        del world.files[f"{SESSION}/salloc.log"]
    else:
        world.files[f"{SESSION}/salloc.log"] = log
    return opening


@pytest.mark.parametrize("state", ["CANCELLED", "GONE"])
async def test_a_request_that_went_with_the_connection_is_made_by_sbatch(
    world: World, state: str
) -> None:
    opening = await waited_in_vain(world, INTERRUPTED, state)
    world.made = [job(8)]
    assert (await opening.opener.open()).job.job_id == "8"
    assert opening.learnt == ["sbatch"]
    assert opening.warnings() == [
        "The request for job 7 did not outlive the lost connection (the site ends processes at "
        "logout); the session is started with sbatch instead of salloc."
    ]


@pytest.mark.parametrize("state", ["CANCELLED", "GONE"])
@pytest.mark.parametrize(
    "log", [CANCELLED, WAITED + "Killed\njupyter-hpc: exit 137\n", WAITED, "", None]
)
async def test_a_job_that_somebody_has_cancelled_is_not_asked_for_again(
    world: World, log: str | None, state: str
) -> None:
    """By stop on another computer, or by scancel, while this one slept."""
    opening = await waited_in_vain(world, log, state)
    world.made = [job(8)]
    with pytest.raises(SessionEnded, match=r"was cancelled|has no record of why"):
        await opening.opener.open()
    assert opening.learnt == [] and opening.warnings() == []
    assert "sbatch" not in world.programs() and opening.opener.job_id == "7"


async def test_one_that_ran_is_not_asked_for_again_either(world: World) -> None:
    granted = f"{WAITED}salloc: Granted job allocation 7\njupyter-hpc: exit 0\n"
    opening = await waited_in_vain(world, granted)
    world.made = [job(8)]
    with pytest.raises(SessionEnded, match="was cancelled"):
        await opening.opener.open()
    assert opening.learnt == []


@pytest.mark.parametrize(
    ("learnt", "state"), [("salloc", "TIMEOUT"), ("sbatch", "TIMEOUT"), ("sbatch", "CANCELLED")]
)
async def test_a_job_that_ended_during_a_cut_says_why(
    world: World, learnt: str, state: str
) -> None:
    opening = Opening(world, learnt=learnt)
    grants(world, 7, "PENDING Priority", "PENDING Priority", state)
    for _ in range(2):
        with pytest.raises(SessionEnded, match=r"time limit|cancelled"):
            await opening.opener.open()
    assert opening.events[1:] == [] and opening.learnt == []


def test_a_node_whose_name_is_none_is_refused() -> None:
    (running,) = read_jobs(job(7).row())
    assert node_names(running) == ["gpu01", "gpu02"]
    with pytest.raises(UnreadableAnswer, match="which is no name of a host"):
        node_names(dataclasses.replace(running, nodes="gpu01,-oProxyCommand=x"))


# -- the server ---------------------------------------------------------------------------------


class Connections:
    """The node is reached over SSH, and is the world itself."""

    def __init__(self, world: World, *, wants_tcp: bool = False) -> None:
        self._world = world
        self.wants_tcp = wants_tcp
        self.approached: list[tuple[str, str]] = []

    async def approach(self, node: str, job_id: str) -> None:
        self.approached.append((node, job_id))

    @property
    def on_node(self) -> Runner:
        assert self.approached, "nobody has approached the node"
        return self._world

    @property
    def starter(self) -> Runner:
        return self.on_node


def opened_job() -> OpenJob:
    (running,) = read_jobs(job(7).row())
    return OpenJob(running, ACCOUNT)


async def test_a_server_that_runs_is_used(world: World) -> None:
    world.answers["find_server.sh"] = [
        f"session={SESSION}\n{ADDRESS}secret=s\ntoken=t\nlooked=yes\n"
    ]
    connections = Connections(world)
    server = await open_server(PROFILE, connections, opened_job())
    assert server.found
    assert server.address == ServerAddress(
        "gpu01", SESSION, "/tmp/jh-x", "/usr/bin/python3", "s", "t"
    )
    assert connections.approached == [("gpu01", "7")]
    assert await server_lives(PROFILE, connections, opened_job())


@pytest.mark.parametrize("wants_tcp", [False, True])
async def test_without_a_server_one_is_started(world: World, wants_tcp: bool) -> None:
    world.answers["find_server.sh"] = ["looked=yes\n"]
    world.answers["place.sh"] = [f"folder={SESSION}\n"]
    world.answers["start_and_await.sh"] = [f"found=address\n{ADDRESS}"]
    connections = Connections(world, wants_tcp=wants_tcp)
    server = await open_server(PROFILE, connections, opened_job())
    assert not server.found and server.address.token == "t0ken"
    launch = world.ran[-1][world.ran[-1].index("sh") :]
    root, tcp = "", "tcp" if wants_tcp else ""
    assert launch == ("sh", f"{SESSION}/launch.sh", SESSION, root, tcp, "jupyter", "lab")
    assert not await server_lives(PROFILE, connections, opened_job())


async def test_where_nodes_cannot_write_the_home_the_session_lies_on_the_node(
    world: World,
) -> None:
    site = profile(storage={"home": {"path": "$HOME", "kind": "home", "read_only": True}})
    world.answers["find_server.sh"] = ["looked=yes\n"]
    world.answers["place.sh"] = ["folder=/tmp/jupyter-hpc-7.x\n"]
    world.answers["start_and_await.sh"] = [f"found=address\n{ADDRESS}"]
    await open_server(site, Connections(world), opened_job())
    placed = next(words for words in world.ran if words[0] == "place.sh")
    assert "/tmp/jupyter-hpc-7" in " ".join(placed)


async def test_what_jupyter_wrote_before_it_ended_is_told(world: World) -> None:
    lines = "".join(f"output=line {number}\n" for number in range(20))
    world.answers["await_files.sh"] = [f"found=ended\ncode=3\n{lines}", "found=\n"]
    connections = Connections(world)
    await connections.approach("gpu01", "7")
    address = ServerAddress("gpu01", SESSION, "/tmp/jh-x", "python3", "s", "t")
    told = await why_jupyter_ended(PROFILE, connections, address)
    shown = "\n".join(f"line {number}" for number in range(12, 20))
    assert told.message == (
        f"Jupyter ended as soon as it was started, with exit code 3. It wrote:\n{shown}"
    )
    assert f"{SESSION}/jupyter.log" in told.hint
    told = await why_jupyter_ended(PROFILE, connections, address)
    assert told.message == "Jupyter ended as soon as it was started, with exit code unknown."


# -- a successor that an earlier connect has left ---------------------------------------------


async def test_a_successor_that_is_alone_is_the_session(world: World) -> None:
    world.jobs = [job(8, name=f"{NAME}+next")]
    opening = Opening(world)
    assert (await opening.opener.open()).job.job_id == "8"
    assert world.jobs[0].name == NAME
    assert "Job 8 was asked for to take this session over; it is used." in opening.warnings()
    assert not opening.opener.own


async def test_a_successor_beside_the_session_is_named_with_what_ends_it(world: World) -> None:
    world.jobs = [job(7), job(8, "PENDING Priority", name=f"{NAME}+next")]
    opening = Opening(world)
    assert (await opening.opener.open()).job.job_id == "7"
    (said,) = opening.warnings()
    assert "Job 8" in said and "waits" in said and "jupyter-hpc cancel 8 --on mini" in said
    assert opening.opener.successor_id == "8" and world.jobs[1].name == f"{NAME}+next"


async def test_the_session_goes_on_in_the_job_that_was_handed_over(world: World) -> None:
    world.jobs = [job(7)]
    opening = Opening(world)
    await opening.opener.open()
    world.jobs = [job(8, "PENDING Priority", "PENDING Priority", "RUNNING", name=f"{NAME}+next")]
    opening.opener.follow("8", own=True)
    assert (await opening.opener.open()).job.job_id == "8"
    assert world.jobs[0].name == NAME and opening.opener.own
    assert any(isinstance(event, Pending) for event in opening.events)


@pytest.mark.parametrize(
    ("successor", "said"), [("8", "The job was cancelled"), ("", "is not in the queue")]
)
async def test_a_successor_that_is_gone_is_not_asked_for_again(
    world: World, successor: str, said: str
) -> None:
    world.jobs = [job(7)]
    opening = Opening(world)
    await opening.opener.open()
    world.jobs = [job(8, "CANCELLED", name=f"{NAME}+next")]
    world.files[f"{STATE}/jobs/8/salloc.log"] = INTERRUPTED.replace("7", "8")
    opening.opener.follow(successor, own=True)
    grants(world, 9)
    with pytest.raises(SessionEnded, match=said):
        await opening.opener.open()
    assert not {"sbatch", "start_and_watch.sh"} & {*world.programs()}
