"""The login and node connections of this moment, and new pipes over them.

ClusterConnections outlives each of them: after a cut it logs in again and opens the next
pipe over the transport that worked before.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.launch import ServerAddress, StepRunner
from jupyter_hpc.connect.ssh.interfaces import BytePipe, Connection, LoginConnection
from jupyter_hpc.connect.ssh.login import KeyRing, Reachable, find_master, open_login, probe
from jupyter_hpc.connect.ssh.prompts import NoPrompter, Prompter
from jupyter_hpc.connect.tunnel import transports
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.transports import Attach, Connections
from jupyter_hpc.errors import PipeRefused, PromptNeeded, Unreachable, UsageError
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, Runner
from jupyter_hpc.slurm import allocate

T = TypeVar("T")

#: A second hop, or a pipe, through a healthy login connection takes a fraction of this.
_HOP_SECONDS = 15.0

#: Logins that nobody asked for, at most so many in so many seconds. A host that ends each
#: connection at once would else be logged in to for ever, which sites take for an attack.
_MAX_LOGINS, _LOGIN_SPAN_SECONDS = 6, 120.0


class ClusterConnections:
    """Whatever leads to the cluster now: one login connection, and the node behind it.

    `wanted` is the transport that was asked for, or "auto"; `remembered` the one that
    worked on this cluster before. `transport` is the one in use, with the reason for it.
    """

    def __init__(self, profile: Profile, wanted: str, remembered: str, prompter: Prompter) -> None:
        self.transport = ""
        self.reason = ""
        self._profile = profile
        self._wanted = wanted
        self._remembered = remembered
        self._prompter = prompter
        self._ring = KeyRing()
        self._connections: Connections | None = None
        self._node: Connection | None = None
        self._node_name = ""
        self._job_id = ""
        self._needs_person = False
        self._logins: deque[float] = deque(maxlen=_MAX_LOGINS)

    @property
    def login(self) -> LoginConnection:
        """The login connection; Unreachable if there is none just now."""
        if self._connections is None or self._connections.login.closed:
            raise Unreachable(
                "There is no connection to the login host.", "It is being made again."
            )
        return self._connections.login

    @property
    def alive(self) -> bool:
        return self._connections is not None and not self._connections.login.closed

    async def log_in(self, *, ask: bool, reachable: Reachable | None = None) -> None:
        """A new login connection in place of the old one.

        Without `ask` nothing is begun that a person would have to answer.
        """
        prompter = self._prompter if ask else NoPrompter()
        if self._needs_person and not ask:
            if reachable is not None:
                reachable.close()
            # A connection that the user has opened meanwhile needs no new login.
            login = await find_master(self._profile.login, self._ring)
            if login is None:
                raise PromptNeeded(
                    f"A new login to {self._profile.login.host[0]} needs an answer from you.",
                    "Choose 'Log in again' on the page, or run `jupyter-hpc connect` in a "
                    "terminal.",
                )
        else:
            if not ask:
                self._spend_login(reachable)
            login = await self._open(prompter, reachable)
        self.close()
        self._needs_person = login.needs_person
        self._connections = Connections(login, prompter)

    def _spend_login(self, reachable: Reachable | None) -> None:
        """Unreachable when there were too many logins; whoever calls comes back later."""
        now = time.monotonic()
        if len(self._logins) == _MAX_LOGINS and now - self._logins[0] < _LOGIN_SPAN_SECONDS:
            if reachable is not None:
                reachable.close()
            raise Unreachable(
                f"{self._profile.login.host[0]} has ended {_MAX_LOGINS} connections within "
                f"{_LOGIN_SPAN_SECONDS:g} s; the next login waits.",
                "Look at the host with ssh: it may be ending your processes.",
            )
        self._logins.append(now)

    async def _open(self, prompter: Prompter, reachable: Reachable | None) -> LoginConnection:
        settings = self._profile.login
        try:
            return await open_login(settings, prompter, ring=self._ring, reachable=reachable)
        except UsageError as error:
            # The profile's own sentence often says what is missing: a VPN, a running demo.
            raise UsageError(error.message, f"{error.hint} {settings.network}".strip()) from error

    async def approach(self, node: str, job_id: str) -> None:
        """Get as near to the job's node as this site lets us: over SSH, else by steps."""
        self._node_name, self._job_id, self._node = node, job_id, None
        if self._wanted not in ("auto", "ssh") or self._skip_ssh():
            return
        if self._connections is None:
            raise Unreachable("There is no connection to the login host.", "Connect again.")
        try:
            self._node = await self._connections.node(node, timeout=_HOP_SECONDS)
        except PipeRefused:
            if self._wanted == "ssh":
                raise

    def _skip_ssh(self) -> bool:
        """Whether SSH to nodes is known not to work here, so that it is not tried first."""
        return self._wanted == "auto" and self._remembered in ("login-ssh", "srun")

    @property
    def wants_tcp(self) -> bool:
        """Whether the relay has to listen on a port of the node."""
        return self._wanted == "direct"

    @property
    def on_node(self) -> Runner:
        """Runs commands on the node."""
        if self._node is not None and not self._node.closed:
            return self._node.runner
        return StepRunner(self.login.runner, self._job_id, self._node_name)

    @property
    def starter(self) -> Runner:
        """Where a detached srun is started: the node where we reach it, else the login host."""
        if self._node is not None and not self._node.closed:
            return self._node.runner
        return self.login.runner

    async def open_pipe(self, address: ServerAddress) -> BytePipe:
        """A new pipe to the relay over the connections that are open now."""
        if self._connections is None:
            raise Unreachable(
                "There is no connection to the login host.", "It is being made again."
            )
        attach = self._attach(address)
        if self.transport:
            return await transports.open_pipe(
                self.transport, self._connections, attach, timeout=_HOP_SECONDS
            )
        chosen = await transports.choose(
            self._connections,
            attach,
            wanted=self._wanted,
            remembered=self._remembered or None,
            timeout=_HOP_SECONDS,
        )
        self.transport, self.reason = chosen.transport, chosen.reason
        return chosen.pipe

    def _attach(self, address: ServerAddress) -> Attach:
        step = allocate.step_argv(
            self._job_id,
            address.attach_argv,
            unbuffered=True,
            no_input=False,
            quiet=True,
            node=self._node_name,
            gpus=0,
        )
        direct = (self._node_name, address.port) if address.port else None
        return Attach(self._node_name, tuple(address.attach_argv), tuple(step), direct)

    async def probe(self) -> Reachable:
        """The login host's network answer; sends nothing that counts as a login."""
        return await probe(self._profile.login, ring=self._ring)

    def close(self) -> None:
        """Let go of all connections; what runs on the cluster goes on."""
        self._node = None
        if self._connections is not None:
            self._connections.close()
            self._connections = None


def _no_login() -> Unreachable:
    return Unreachable("There is no connection to the login host.", "It is being made again.")


class CurrentRunner:
    """Runs commands over whichever login connection there is at that moment."""

    def __init__(self, connections: ClusterConnections) -> None:
        self._connections = connections

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` on the login host; see Runner.run for the contract."""
        return await self._connections.login.runner.run(argv, stdin=stdin, timeout=timeout)


async def unless_interrupted(awaited: Awaitable[T], link: Link | None) -> T:
    """The result of something that needs the same hosts as the link; Unreachable if it is away.

    A command over a connection that has fallen silent would else be waited for until its
    deadline.
    """
    task = asyncio.ensure_future(awaited)
    trouble = asyncio.ensure_future(link.wait_trouble() if link else asyncio.Event().wait())
    try:
        await asyncio.wait((task, trouble), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Unreachable("The connection to the node is interrupted.", "It is being made again.")
    finally:
        trouble.cancel()
        if not task.done():
            # Not waited for: to end a command takes seconds on such a connection.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.cancel()
