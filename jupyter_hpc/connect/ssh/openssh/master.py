"""The user's own OpenSSH connection (ControlMaster), when one is alive.

On sites with a second factor people keep one connection open and run everything
through it. Then so do we: each command and each pipe is an `ssh -S SOCKET HOST …`,
which opens a session on that connection and authenticates nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence

from jupyter_hpc.connect.ssh.connection import SshConnection
from jupyter_hpc.connect.ssh.interfaces import BytePipe, Connection, LoginConnection, RemoteProcess
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.node import forwarding_denied, open_second_hop
from jupyter_hpc.connect.ssh.openssh.process import OpenSshProcess, start_ssh
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.runner import SshRunner
from jupyter_hpc.connect.ssh.settings import Target, openssh_options, openssh_settings
from jupyter_hpc.errors import CommandError, ConnectError, PipeRefused, Unreachable
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: A master whose own connection is dead still answers a check; this long it may take
#: to run `true`.
_MAX_PROBE_SECONDS = 8.0

_MAX_CHECK_SECONDS = 5.0

#: Seconds between two looks whether the master lives.
_WATCH_SECONDS = 5.0

#: If the master is gone, ssh would log in by itself, and ask, or push to a phone. With
#: this it fails at once instead.
_NEVER_LOG_IN = (
    "-o", "ProxyCommand=false", "-o", "ControlMaster=no", "-o", "BatchMode=yes",
    "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no",
    "-o", "ForwardX11=no", "-o", "ForwardAgent=no", "-T",
)  # fmt: skip


class MasterLogin:
    """A login host behind the user's own OpenSSH connection."""

    kind = "control-master"
    #: When the master ends, a new login is the user's to make.
    needs_person = True
    keys_alone = False

    def __init__(self, target: Target, control_path: str, user: str, ring: KeyRing) -> None:
        self._target = target
        self._control_path = control_path
        self._user = user
        self._ring = ring
        self._closed = asyncio.Event()
        self._processes: set[OpenSshProcess] = set()
        self._nodes: list[SshConnection] = []
        self._runner = SshRunner(self)

    @property
    def host(self) -> str:
        return self._target.name

    @property
    def user(self) -> str:
        return self._user

    @property
    def runner(self) -> SshRunner:
        return self._runner

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess:
        return await self._spawn([*self.command(), self.host, line])

    async def start_sftp(self, *, timeout: float = 15.0) -> RemoteProcess:
        return await self._spawn([*self.command(), "-s", self.host, "sftp"])

    async def open_tcp(self, host: str, port: int, *, timeout: float = 15.0) -> BytePipe:
        process = await self._spawn(self.forward_command(host, port))
        # A refusal ends the command at once; a connection stays silent until it is used.
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await within(process.wait_ended(), min(timeout, 1.0))
        if process.ended:
            said = printable(process.stderr.decode("utf-8", "replace"), 200).strip()
            if "administratively prohibited" in said:
                raise forwarding_denied(self.host)
            raise PipeRefused(
                f"{self.host} opens no TCP connection to {host} port {port}: {said}.",
                "The site may forbid forwarding, or the node may not be reachable.",
            )
        return process

    async def open_node(
        self, node: str, prompter: Prompter, *, timeout: float = 20.0
    ) -> Connection:
        hop = await open_second_hop(
            Target(node, self._target.user, None, self._target.ssh_config),
            self._user,
            prompter,
            self._ring,
            self.runner,
            timeout,
            proxy_command=self.forward_command,
        )
        connection = SshConnection(node, hop, ())
        self._nodes.append(connection)
        return connection

    async def wait_closed(self) -> None:
        while not self.closed:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await within(self._closed.wait(), _WATCH_SECONDS)
            if not self.closed and not await _answers(self._target, self._control_path):
                self.close()

    async def wait_silent(self, seconds: float) -> None:
        """Silence is the user's to judge, whose connection it is."""
        await self.wait_closed()

    def close(self) -> None:
        """End what we run over the master; the master itself belongs to the user."""
        self._closed.set()
        for node in self._nodes:
            node.close()
        for process in list(self._processes):
            process.close()

    def command(self) -> list[str]:
        """ssh that uses the master or nothing, without host and remote command."""
        return [
            "ssh", *openssh_options(self._target), "-S", self._control_path, *_NEVER_LOG_IN,
        ]  # fmt: skip

    def forward_command(self, host: str, port: int) -> list[str]:
        """ssh whose stdin and stdout are a TCP connection made by the login host."""
        shown = f"[{host}]" if ":" in host else host
        return [*self.command(), "-W", f"{shown}:{port}", self.host]

    async def _spawn(self, argv: Sequence[str]) -> OpenSshProcess:
        if self.closed:
            raise Unreachable(f"The connection to {self.host} is closed.", "Connect again.")
        process = await start_ssh(argv)
        self._processes.add(process)
        process.when_ended(self._processes.discard)
        return process


async def find(targets: Sequence[Target], ring: KeyRing) -> LoginConnection | None:
    """The first of the hosts to which a master connection is alive, or None."""
    if sys.platform == "win32":
        return None
    for target in targets:
        settings = await openssh_settings(target)
        path = settings.get("controlpath", "none")
        if path == "none" or not await _answers(target, path):
            continue
        login = MasterLogin(target, path, settings.get("user", ""), ring)
        try:
            if (await login.runner.run(["true"], timeout=_MAX_PROBE_SECONDS)).ok:
                return login
        except (CommandError, ConnectError) as error:
            _log.info("the OpenSSH connection to %s does not work: %s", target.name, error.message)
            login.close()
    return None


async def _answers(target: Target, control_path: str) -> bool:
    words = ["ssh", *openssh_options(target), "-S", control_path, "-O", "check", target.name]
    try:
        return (await LocalRunner().run(words, timeout=_MAX_CHECK_SECONDS)).ok
    except CommandError:
        return False
