"""The session as its user sees it, without a cluster: port, record, page, commands."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.connect.events import Ended, Pending, Ready, Starting
from jupyter_hpc.connect.job.request import find_profile, wanted_profile
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.proxy import ports
from jupyter_hpc.connect.session import manager as module
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.connect.session.store import Records
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import ConnectError, HpcError, LaunchFailed, PortTaken, ProfileError
from jupyter_hpc.slurm.models import Job, Request
from tests.waiting import until


class Supervised:
    """Stands in for the supervisor: does as the test says, through the listener."""

    made: list[Supervised]
    error: HpcError | None = None
    number = 1

    def __init__(self, context: Any) -> None:
        self.listener: Manager = context.listener
        self.profile = context.profile
        self.renewal = SimpleNamespace(offer="It costs.")
        self.shape = context.shape
        self.token, self.address, self.link, self.job_id = "t0ken", None, None, "7"
        self.unended = ""
        self.prompts_allowed = 0
        self.launch = context.launch
        self.connections = context.connections
        self.end: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        Supervised.made.append(self)

    def ask(self, command: SessionCommand) -> None:
        if not self.end.done():
            self.end.set_result(Ended("RUNNING", "requested", f"{command.value} was asked for."))

    def allow_prompt(self) -> None:
        self.prompts_allowed += 1

    async def run(self) -> Ended:
        if Supervised.number != 1:
            await self.listener.on_number(Supervised.number)
        if Supervised.error is not None:
            raise Supervised.error
        ended = await self.end
        self.listener.on_event(ended)
        return ended


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    Supervised.made, Supervised.error, Supervised.number = [], None, 1
    monkeypatch.setattr(module, "Supervisor", Supervised)
    return Records(tmp_path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def session(records: Records, shown: list[dict[str, Any]] | None = None, **options: Any) -> Manager:
    wanted = ConnectOptions(options.pop("name", "ulysses"), port=free_port(), **options)
    show = (shown if shown is not None else []).append
    return Manager(wanted, NoPrompter(), show, records)


async def started(manager: Manager) -> tuple[asyncio.Task[Ended], Supervised]:
    count = len(Supervised.made)
    running = asyncio.create_task(manager.run())
    await until(lambda: len(Supervised.made) > count)
    return running, Supervised.made[-1]


async def test_the_port_answers_before_anything_is_known(records: Records) -> None:
    manager = session(records)
    running, supervisor = await started(manager)
    record = records.session("ulysses")
    assert record is not None and record.port == manager.port
    status = await asyncio.to_thread(ask_manager, record, "status")
    assert (status["state"], status["text"]) == ("starting", "Starting.")
    supervisor.listener.on_event(Pending("7", "Priority", "Others are ahead.", None, "Wait."))
    status = await asyncio.to_thread(ask_manager, record, "status")
    assert (status["state"], status["advice"], status["job_id"]) == ("pending", "Wait.", "7")
    manager.ask(SessionCommand.LEAVE)
    assert (await running).cause == "requested"
    assert records.session("ulysses") is None


async def test_events_reach_record_viewer_and_log(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jupyter_hpc")
    shown: list[dict[str, Any]] = []
    manager = session(records, shown)
    running, supervisor = await started(manager)
    ready = Ready(f"http://localhost:{manager.port}/lab", manager.port, "7", "cpu01", "ssh")
    for event in (Starting("7", "cpu01"), ready):
        supervisor.listener.on_event(event)
    supervisor.listener.on_job(cast(Job, SimpleNamespace(time_left=60)))
    record = records.session("ulysses")
    assert record is not None
    assert (record.state, record.job_id, record.node, record.transport) == (
        *("ready", "7", "cpu01"),
        "ssh",
    )
    assert record.ends_at is not None
    assert [(event["event"], event["job_id"]) for event in shown] == [
        ("starting", "7"),
        ("ready", "7"),
    ]
    assert shown[1]["cluster"] == "ulysses" and "over ssh" in shown[1]["text"]
    assert "JupyterLab on cpu01 (job 7, over ssh)" in caplog.text
    assert "t0ken" not in caplog.text
    manager.ask(SessionCommand.STOP)
    await running


@pytest.mark.parametrize("action", ["disconnect", "stop"])
async def test_another_command_ends_it_and_is_told_how(records: Records, action: str) -> None:
    manager = session(records)
    running, _ = await started(manager)
    record = records.session("ulysses")
    assert record is not None
    answer = await asyncio.to_thread(ask_manager, record, action)
    assert answer["text"].endswith("was asked for.")
    await running


async def test_a_session_that_cannot_be_opened_is_said_on_the_page_and_in_the_log(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    Supervised.error = LaunchFailed("No step could be started.", "Try by hand.")
    manager = session(records)
    with pytest.raises(LaunchFailed):
        await manager.run()
    assert manager.over and records.sessions() == []
    assert "No step could be started. Try by hand." in caplog.text


async def test_a_session_whose_job_could_not_be_ended_is_remembered(records: Records) -> None:
    manager = session(records)
    running, supervisor = await started(manager)
    supervisor.unended = "Job 7 could not be cancelled and may go on."
    supervisor.end.set_exception(LaunchFailed("It failed."))
    await asyncio.wait((running,))
    record = records.session("ulysses")
    assert record is not None and isinstance(running.exception(), LaunchFailed)
    assert (record.state, record.job_id, record.problem) == ("left", "7", supervisor.unended)


async def _tab_asks(port: int) -> str:
    """What an open tab hears; "" if nobody answers any more."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    request = f"GET /_jupyter-hpc/status?tab=a HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    text: str = json.loads(answer.partition(b"\r\n\r\n")[2])["status"]["text"]
    return text


@pytest.mark.parametrize("end", ["over", "failed", "asked for"])
async def test_an_open_tab_hears_how_it_ended_before_the_port_is_gone(
    records: Records, end: str
) -> None:
    manager = session(records)
    running, supervisor = await started(manager)
    assert await _tab_asks(manager.port) == "Starting."
    if end == "over":
        supervisor.end.set_result(Ended("TIMEOUT", "time_limit", "The time limit was reached."))
    elif end == "failed":
        supervisor.end.set_exception(LaunchFailed("Jupyter has ended three times."))
    else:
        manager.ask(SessionCommand.LEAVE)
        assert (await asyncio.wait_for(running, 2)).cause == "requested", "nobody is kept waiting"
        return
    await asyncio.sleep(0.3)  # sleep: the port stays
    assert not running.done()
    said = await _tab_asks(manager.port)
    assert said in ("The time limit was reached.", "Jupyter has ended three times.")
    await asyncio.wait((running,), timeout=2)
    assert running.done() and (end == "over" or isinstance(running.exception(), LaunchFailed))


async def test_whoever_is_in_a_hurry_does_not_wait_for_a_tab(records: Records) -> None:
    manager = session(records)
    running, supervisor = await started(manager)
    await _tab_asks(manager.port)
    supervisor.end.set_result(Ended("TIMEOUT", "time_limit", "Over."))
    await until(lambda: manager.over)
    manager.ask(SessionCommand.LEAVE)
    await asyncio.wait_for(running, 2)


async def test_a_new_job_on_the_same_port(records: Records) -> None:
    manager = Manager(
        ConnectOptions("ulysses", port=free_port()),
        NoPrompter(),
        lambda event: None,
        records,
        keep_page=60,
    )
    running, supervisor = await started(manager)
    port = manager.port
    with pytest.raises(HpcError, match="nothing to start again"):
        manager.ask(SessionCommand.AGAIN)
    supervisor.profile = dataclasses.replace(supervisor.profile, title="answered")
    supervisor.shape = Request(gpus=4)
    supervisor.end.set_result(Ended("TIMEOUT", "time_limit", "Over."))
    await until(lambda: manager._snapshot()["questions"])
    manager.ask(SessionCommand.AGAIN)
    await until(lambda: len(Supervised.made) == 2)
    assert Supervised.made[1].profile.title == "answered", "what a person said is kept"
    assert Supervised.made[1].shape == Request(gpus=4), "and the resources of the job"
    assert manager.port == port and not manager.over
    manager.ask(SessionCommand.LEAVE)
    await running


async def test_a_further_session_moves_to_its_own_name(records: Records) -> None:
    Supervised.number = 3
    manager = Manager(
        ConnectOptions("ulysses", new=True), NoPrompter(), lambda event: None, records
    )
    assert manager.name == "ulysses-2"
    running, _ = await started(manager)
    await until(lambda: records.session("ulysses-3"))
    assert (manager.name, records.session("ulysses-2")) == ("ulysses-3", None)
    manager.ask(SessionCommand.LEAVE)
    await running


async def test_what_was_learnt_is_remembered(records: Records) -> None:
    manager = session(records)
    running, supervisor = await started(manager)
    supervisor.connections.transport, supervisor.connections.reason = "srun", "ssh was refused"
    supervisor.launch.learn("sbatch", "salloc is refused")
    manager.ask(SessionCommand.LEAVE)
    await running
    memory = records.memory("ulysses")
    assert (memory.transport, memory.transport_reason) == ("srun", "ssh was refused")
    assert (memory.launch, memory.launch_reason) == ("sbatch", "salloc is refused")
    assert json.loads((records.folder / "memory" / "ulysses.json").read_text())["port"]


async def test_a_port_that_somebody_chose_is_not_changed(records: Records) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        manager = Manager(
            ConnectOptions("ulysses", port=taken), NoPrompter(), lambda event: None, records
        )
        with pytest.raises(PortTaken):
            await manager.run()
    assert Supervised.made == []


async def test_a_port_of_a_built_in_profile_is_a_proposal(records: Records) -> None:
    def port() -> tuple[int, str]:
        choice = Manager(ConnectOptions("ulysses"), NoPrompter(), lambda event: None, records)
        return choice._port().port, choice._port().whose

    assert port() == (20801, "proposed")
    records.remember("ulysses", port=23456)
    assert port() == (23456, "remembered"), "the bookmark of this laptop stays"


@pytest.mark.parametrize("before", [False, True])
async def test_a_taken_port_that_nobody_chose_is_replaced_and_said(
    records: Records, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    shown: list[dict[str, Any]] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        if before:
            records.remember("ulysses", port=taken)
        else:
            monkeypatch.setattr(ports, "_FIRST_PORT", taken)
            monkeypatch.setattr(ports, "_PORT_COUNT", 1)
        manager = session(records, shown)
        manager.options = dataclasses.replace(manager.options, port=None)
        manager.profile = dataclasses.replace(
            manager.profile, jupyter=dataclasses.replace(manager.profile.jupyter, port=None)
        )
        running, _ = await started(manager)
    assert manager.port > taken
    assert (record := records.session("ulysses")) and record.port == manager.port
    said = shown[0]["text"]
    assert f"Port {taken} on this computer is taken by" in said and str(manager.port) in said
    kept = records.memory("ulysses").port
    if before:
        assert kept == taken, "a bookmark leads there"
        assert f"connect ulysses --port {manager.port}" in said
    else:
        assert kept == manager.port, "from now on it is this one"
    manager.ask(SessionCommand.LEAVE)
    await running


async def test_a_port_that_the_session_itself_has_makes_no_second_one(records: Records) -> None:
    manager = session(records)
    running, _ = await started(manager)
    records.remember("ulysses", port=manager.port)
    second = Manager(ConnectOptions("ulysses"), NoPrompter(), lambda event: None, records)
    with pytest.raises(ConnectError, match="is being connected on this computer already"):
        await second.run()
    manager.ask(SessionCommand.LEAVE)
    await running


async def test_a_person_who_answers_is_passed_on(records: Records) -> None:
    manager = session(records)
    running, supervisor = await started(manager)
    manager.allow_prompt()
    assert supervisor.prompts_allowed == 1 and manager.needs_person == ""
    manager.ask(SessionCommand.LEAVE)
    await running


def test_a_further_session_has_the_profile_of_the_first() -> None:
    profile, number = find_profile("ulysses-4")
    assert (profile.name, number) == ("ulysses", 4)
    with pytest.raises(ProfileError):
        find_profile("nowhere-4")


def test_what_is_wrong_is_found_before_anything_is_changed() -> None:
    with pytest.raises(HpcError):
        wanted_profile(ConnectOptions("ulysses", preset="no such preset"))
    with pytest.raises(HpcError):
        wanted_profile(ConnectOptions("ulysses", idle_release="soon"))
