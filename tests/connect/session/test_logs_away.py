"""`jupyter-hpc logs` while the connection to the node is away."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.session.actions import SessionActions, read_log
from jupyter_hpc.connect.session.connections import ClusterConnections, unless_interrupted
from jupyter_hpc.connect.session.manager import Manager
from jupyter_hpc.connect.session.supervisor import Supervisor
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import CommandTimeout, ConnectError, Unreachable
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import Session, command, connected, environment, run
from tests.waiting import eventually


def acting(error: Exception, *, over: bool = False, needs_person: str = "") -> SessionActions:
    """The actions of a session whose log cannot be read."""

    class Away:
        async def run(self, *_: object, **__: object) -> None:
            raise error

    supervisor = SimpleNamespace(
        address=SimpleNamespace(session="/home/s"),
        connections=SimpleNamespace(on_node=Away()),
        link=None,
    )
    manager = SimpleNamespace(
        name="mini", supervisor=supervisor, over=over, needs_person=needs_person
    )
    return SessionActions(cast(Manager, manager))


@pytest.mark.parametrize(
    "error", [Unreachable("The connection to x is closed."), CommandTimeout("sh took 30 s.")]
)
async def test_a_cut_is_said_to_be_one(error: Exception) -> None:
    with pytest.raises(Unreachable) as told:
        await acting(error).logs({})
    assert told.value.transient
    assert told.value.message == "The connection to the node is away, and is being made again."
    assert "jupyter-hpc logs -f mini" in told.value.hint


async def test_a_login_that_somebody_must_answer_is_named() -> None:
    with pytest.raises(Unreachable, match=r"away\. Choose 'Log in again'"):
        await acting(Unreachable("x"), needs_person="Choose 'Log in again' on the page.").logs({})


async def test_after_the_end_nothing_is_made_again() -> None:
    with pytest.raises(ConnectError) as told:
        await acting(Unreachable("x"), over=True).logs({})
    assert not told.value.transient
    assert "/home/s/jupyter.log" in told.value.hint


async def test_a_silent_connection_is_not_waited_for() -> None:
    link = Link("secret", "laptop")  # it has no pipe
    ended = asyncio.Event()

    async def silent() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    with pytest.raises(Unreachable):
        await asyncio.wait_for(unless_interrupted(silent(), link), 5)
    await asyncio.wait_for(ended.wait(), 5)
    assert await unless_interrupted(asyncio.sleep(0, "read"), None) == "read"


async def test_a_log_is_read_only_while_the_link_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_from(runner: Any, file: str, offset: int) -> tuple[str, int]:
        if supervisor.link is not None:
            await asyncio.Event().wait()
        return "", 0

    monkeypatch.setattr(remote, "read_from", read_from)
    supervisor = object.__new__(Supervisor)
    supervisor.address = cast(ServerAddress, SimpleNamespace(session="/home/s"))
    supervisor.connections = cast(ClusterConnections, SimpleNamespace(on_node=None))
    supervisor.link = Link("secret", "laptop")
    with pytest.raises(Unreachable):
        await asyncio.wait_for(read_log(supervisor, 7), 5)
    supervisor.link = None
    assert await read_log(supervisor, 7) == ("", 7)  # what was shown is not shown again


# -- on a real cluster ------------------------------------------------------------------------


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "logs")
    fresh.write_profile("mini")
    yield fresh
    cluster.heal()


class Follower:
    """A running `logs -f`."""

    def __init__(self, laptop: Laptop) -> None:
        self.process = subprocess.Popen(
            command("logs", "-f", "mini"),
            env=environment(laptop),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.shown = {"stdout": "", "stderr": ""}
        for name in self.shown:
            threading.Thread(target=self._read, args=(name,), daemon=True).start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            self.shown[name] += line

    def wait_for(self, text: str, name: str = "stdout", seconds: float = 40) -> None:
        def shown() -> bool:
            assert self.process.poll() is None, self.shown
            return text in self.shown[name]

        eventually(shown, lambda: str(self.shown), seconds=seconds)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)


def leave_a_line(session: Session, word: str) -> None:
    """Something that Jupyter logs."""
    session.get(f"/api/contents/{word}")


def test_logs_go_on_after_a_black_hole(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        leave_a_line(session, "before-the-hole")
        follower = Follower(laptop)
        try:
            follower.wait_for("before-the-hole")
            cluster.black_hole()
            try:
                began = time.monotonic()
                once = run(laptop, "logs", "mini")
                assert time.monotonic() - began < 20  # not until the deadline of a command
                assert once.returncode == 1
                assert "is away, and is being made again." in once.stderr
                assert "closed" not in once.stderr
                follower.wait_for("The log goes on when it is back.", "stderr")
            finally:
                cluster.fill_hole()
            session.wait_for("reconnected", 30)
            leave_a_line(session, "after-the-hole")
            follower.wait_for("after-the-hole")
            assert follower.shown["stdout"].count("GET /api/contents/before-the-hole") == 1
            assert follower.shown["stderr"].count("away") == 1
        finally:
            follower.close()
