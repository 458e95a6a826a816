"""A supervisor whose cluster is a handful of values: what the unit tests of a session share."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.clusters import Profile, load
from jupyter_hpc.connect.events import Ended, Event
from jupyter_hpc.connect.job import give_back
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.job.endings import ServerEnd
from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session import serving
from jupyter_hpc.connect.session import supervisor as module
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.supervisor import Supervisor
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import LaunchFailed, Unreachable
from jupyter_hpc.slurm.models import Job, Request

ADDRESS = ServerAddress("cpu01", "/home/s", "/tmp/jh-x", "python3", "secret", "token")


class Listener:
    """Writes down what it hears."""

    name = "ulysses"
    port = 24000
    owner = "laptop"
    browsers = 0

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.links: list[Link | None] = []
        self.numbers: list[int] = []
        self.jobs: list[Job] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_link(self, link: Link | None) -> None:
        self.links.append(link)

    def on_job(self, job: Job) -> None:
        self.jobs.append(job)

    async def on_number(self, number: int) -> None:
        self.numbers.append(number)

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


class Connections:
    """Logins that work, or do not: `logins` holds what each of them raises."""

    def __init__(self) -> None:
        self.alive = False
        self.transport = "ssh"
        self.prompter = NoPrompter()
        self.logins: list[Exception] = []
        self.refusals: list[Exception] = []  # what opening a pipe raises
        self.lost_with: Exception | None = None  # the login goes away with this one
        self.login_answers = asyncio.Event()
        self.login_answers.set()
        self.asked: list[bool] = []
        self.closed = 0
        self.on_node = object()

    @property
    def login(self) -> Any:
        if not self.alive:
            raise Unreachable("There is no connection to the login host.")
        return SimpleNamespace(runner=object())

    async def probe(self) -> None:
        return None

    async def log_in(self, *, ask: bool, reachable: object = None) -> None:
        self.asked.append(ask)
        await self.login_answers.wait()
        if self.logins:
            raise self.logins.pop(0)
        self.alive = True

    async def open_pipe(self, address: ServerAddress) -> object:
        if self.refusals:
            refusal = self.refusals.pop(0)
            self.alive = refusal is not self.lost_with
            raise refusal
        return object()

    async def renewed(self) -> None:
        await asyncio.Event().wait()

    async def credential(self) -> None:
        return None

    def close(self) -> None:
        self.closed += 1
        self.alive = False


class Cluster:
    """What the cluster does in one test; each part can be made to raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listener = Listener()
        self.connections = Connections()
        self.job_id = "7"
        self.opening: list[Exception] = []
        self.servers: list[Exception | bool | asyncio.Event] = []
        self.pipes: list[Exception] = []
        self.job_over = asyncio.Event()
        self.cancelled: list[str] = []
        self.cancel_error: Exception | None = None
        self.own = True
        self.asking = False
        self.successor = "none"  # the job that takes the session over
        self.shape: Request | None = None  # what Slurm says of a job that was found
        self.followed: list[tuple[str, bool]] = []
        self.cancels = asyncio.Event()  # Slurm cancels what it is told to
        self.cancels.set()
        self.cancelling = False
        self._pipes_fail: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = False  # Slurm says so when it is asked before the job is given back
        self.extension = True
        self.ends: list[ServerEnd] = []  # how each Jupyter ends that does
        self.known_kills: list[int] = []
        job = SimpleNamespace(job_id="7", time_left=3600, time_limit=3600)
        opened = SimpleNamespace(job=job, node="cpu01", account=SimpleNamespace(uid="1000"))

        class Opener:
            job_id = ""
            own = self.own
            asking = False
            successor_id = ""
            shape: Request | None = None

            def __init__(opener, profile: Profile, *_: object) -> None:
                opener.own = self.own
                opener.profile = profile
                opener.shape = self.shape

            async def asked_for(opener) -> str:
                opener.job_id = self.job_id
                return opener.job_id

            async def open(opener) -> Any:
                if self.asking:
                    opener.asking = True
                    if self.opening:
                        raise self.opening.pop(0)
                    await asyncio.Event().wait()
                if opener.job_id != self.successor:
                    opener.job_id = self.job_id
                if self.opening:
                    error = self.opening.pop(0)
                    self.connections.alive = not isinstance(error, Unreachable)
                    raise error
                if opener.job_id == self.successor:
                    return SimpleNamespace(
                        job=SimpleNamespace(job_id=self.successor, time_left=3600, time_limit=3600),
                        node="cpu02",
                        account=opened.account,
                    )
                return opened

            def follow(opener, job_id: str, *, own: bool) -> None:
                self.followed.append((job_id, own))
                opener.job_id = job_id
                self.job_over.clear()

        class FakeLink:
            state = "up"
            taken = False

            def __init__(link, secret: str, owner: str) -> None:
                link.on_event: Callable[[Any], None] | None = None

            async def attach(link, pipe: object) -> None:
                pass

            async def wait_trouble(link) -> None:
                await asyncio.Event().wait()

            async def close(link) -> None:
                pass

        class Pipes:
            def __init__(pipes, *_: object) -> None:
                pass

            async def run(pipes) -> None:
                if self.pipes:
                    raise self.pipes.pop(0)
                await asyncio.shield(self._pipes_fail)

        class Watch:
            def __init__(watch, *_: object) -> None:
                pass

            async def run(watch) -> None:
                await self.job_over.wait()

        async def open_server(*_: object) -> Any:
            found = self.servers.pop(0) if self.servers else False
            if isinstance(found, asyncio.Event):
                await found.wait()
            if isinstance(found, Exception):
                raise found
            return SimpleNamespace(address=ADDRESS, found=found)

        async def cancel(slurm: object, job_id: str) -> None:
            self.cancelling = True
            await self.cancels.wait()
            if self.cancel_error is not None:
                raise self.cancel_error
            self.cancelled.append(job_id)

        async def why_ended(*_: object) -> Ended:
            return Ended("TIMEOUT", "time_limit", "The time limit was reached.")

        async def is_over(*_: object) -> bool:
            return self.over

        async def why_jupyter_ended(*_: object) -> LaunchFailed:
            return LaunchFailed("Jupyter ended as soon as it was started.")

        async def how_server_ended(*args: Any) -> ServerEnd:
            self.known_kills.append(args[-1])
            return self.ends.pop(0) if self.ends else ServerEnd()

        class Memory:
            count = 3

            def __init__(memory, *_: object) -> None:
                pass

            async def run(memory) -> None:
                await asyncio.Event().wait()

        async def extension_installed(*_: object) -> bool:
            return self.extension

        async def answers(*_: object) -> None:
            await asyncio.sleep(0)

        for name, value in {
            "JobOpener": Opener,
            "Link": FakeLink,
            "open_server": open_server,
            "how_server_ended": how_server_ended,
        }.items():
            monkeypatch.setattr(module, name, value)
        for name, value in {
            "why_jupyter_ended": why_jupyter_ended,
            "extension_installed": extension_installed,
            "JobWatch": Watch,
            "PipeReconnect": Pipes,
            "MemoryKillWatch": Memory,
            "jupyter_api": SimpleNamespace(wait_until_answers=answers),
        }.items():
            monkeypatch.setattr(serving, name, value)
        for name, value in {
            "cancel_for_sure": cancel,
            "is_over": is_over,
            "why_ended": why_ended,
        }.items():
            monkeypatch.setattr(give_back, name, value)

    def fail_pipes(self, error: Exception, *, once: bool = False) -> None:
        """The pipe is lost for good, for this reason; `once`: that of the next server is not."""
        failing = self._pipes_fail
        if once:
            self._pipes_fail = asyncio.get_running_loop().create_future()
        failing.set_exception(error)

    def supervisor(self, profile: Profile | None = None, **options: Any) -> Supervisor:
        wanted = dataclasses.replace(ConnectOptions("ulysses"), **options)
        launch = Launch(None, "salloc", "salloc", lambda **facts: None)
        connections = cast(ClusterConnections, self.connections)
        named = profile or load("ulysses")
        return Supervisor(SessionContext(named, wanted, connections, launch, self.listener))
