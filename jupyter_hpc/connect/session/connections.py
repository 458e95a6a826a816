"""The login and node connections of this moment, and new pipes over them.

ClusterConnections outlives each of them: after a cut it logs in again and opens the next
pipe over the transport that worked before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from functools import cached_property
from typing import TypeVar

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.launch import ServerAddress, StepRunner
from jupyter_hpc.connect.session.retry import LoginLimit
from jupyter_hpc.connect.ssh.expiring.credential import Credential
from jupyter_hpc.connect.ssh.expiring.renewal import current, renewed, way_on
from jupyter_hpc.connect.ssh.interfaces import BytePipe, Connection, LoginConnection
from jupyter_hpc.connect.ssh.login import KeyRing, Reachable, find_master, open_login, probe
from jupyter_hpc.connect.ssh.prompts import NoPrompter, Prompter
from jupyter_hpc.connect.tunnel import transports
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.transports import Attach, Connections
from jupyter_hpc.errors import (
    CommandError,
    ConnectError,
    PipeRefused,
    PromptNeeded,
    Unreachable,
)
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, Runner
from jupyter_hpc.slurm import allocate

T = TypeVar("T")

#: A second hop, or a pipe, through a healthy login connection takes a fraction of this.
_HOP_SECONDS = 15.0

#: How long the login host may take to run nothing.
_ANSWER_SECONDS = 2.0

#: Between two looks whether there is a login connection yet.
_LOOK_SECONDS = 0.1

#: Seconds for which a login host may say nothing in the middle of a login: at least, once a
#: login has fallen silent, and at most.
_QUIET_SECONDS = (0.5, 3.0, 15.0)


class Patience:
    """For how many seconds a login host may say nothing before it is given up.

    A network that has forgotten a connection says nothing for ever, and a new one passes. Twice
    the time that a whole login took is long: it has many answers in it. Who was given up too
    soon gets more time at once, because a host takes many logins that are left for an attack.
    """

    seconds = _QUIET_SECONDS[1]

    def answered(self, took: float) -> None:
        """A whole login took so long."""
        shortest, _, longest = _QUIET_SECONDS
        self.seconds = min(longest, max(shortest, 2 * took))

    def gave_up(self) -> None:
        """The host was given up."""
        _, longer, longest = _QUIET_SECONDS
        self.seconds = min(longest, max(longer, 2 * self.seconds))


class ClusterConnections:
    """Whatever leads to the cluster now: one login connection, and the node behind it.

    `wanted` is the transport that was asked for, or "auto"; `remembered` the one that
    worked on this cluster before. `transport` is the one in use, with the reason for it.
    `prompter` is whoever can be asked. It is a Runner: see `run`.
    """

    def __init__(self, profile: Profile, wanted: str, remembered: str, prompter: Prompter) -> None:
        self.transport = ""
        self.reason = ""
        self._profile = profile
        self._wanted = wanted
        self.wants_tcp = wanted == "direct"  #: the relay has to listen on a port of the node
        self._remembered = remembered
        self.prompter = prompter
        self._ring = KeyRing()
        self._connections: Connections | None = None
        self._node: Connection | None = None
        self._node_name = ""
        self._job_id = ""
        self._needs_person = False
        self._logging_in = False
        self._patience = Patience()

    @cached_property
    def login_limit(self) -> LoginLimit:
        """How soon the next login may come that nobody asked for."""
        return LoginLimit()

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

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` on the login host, over the connection of that moment; see Runner.run."""
        return await self.login.runner.run(argv, stdin=stdin, timeout=timeout)

    async def log_in(self, *, ask: bool, reachable: Reachable | None = None) -> None:
        """A new login connection in place of the old one.

        Without `ask` nothing is begun that a person would have to answer.
        """
        prompter = self.prompter if ask else NoPrompter()
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
            login = await self._open(prompter, reachable)
            if not ask and login.kind != "control-master":
                self.login_limit.completed()
        self.close()
        self._needs_person = login.needs_person
        self._connections = Connections(login, prompter)

    async def _open(self, prompter: Prompter, reachable: Reachable | None) -> LoginConnection:
        settings = self._profile.login
        began = time.monotonic()
        self._logging_in = True
        # Where a person may be asked, a slow answer is better than another question.
        quiet = self._patience.seconds if isinstance(prompter, NoPrompter) else None
        try:
            login = await open_login(
                settings, prompter, ring=self._ring, reachable=reachable, quiet=quiet
            )
        except Unreachable:
            self._patience.gave_up()
            raise
        finally:
            self._logging_in = False
        if not login.needs_person:
            self._patience.answered(time.monotonic() - began)
        return login

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
        return Attach(
            self._node_name,
            tuple(address.attach_argv),
            tuple(step),
            direct,
            address.certificate,
            address.no_port,
        )

    def beside(self) -> ClusterConnections:
        """The same login, for the node of another job; it ends with this one and asks nobody."""
        other = ClusterConnections(self._profile, self._wanted, self.transport, NoPrompter())
        other._connections = Connections(self.login, NoPrompter())
        return other

    async def probe(self) -> Reachable:
        """The login host's network answer; sends nothing that counts as a login.

        LoginsPaused if there were too many of them.
        """
        if not self._needs_person:
            self.login_limit.check(self._profile.login.host[0])
        return await probe(self._profile.login, ring=self._ring)

    async def login_answers(self) -> bool:
        """Whether the login connection still brings an answer."""
        try:
            return (await self.login.runner.run(["true"], timeout=_ANSWER_SECONDS)).ok
        except (CommandError, ConnectError):
            return False

    async def lost(self) -> None:
        """Returns once the login connection does not answer any more; it is closed then.

        Nothing is said of an old one while a new one is made, nor of one that only a person
        could replace.
        """
        while True:
            if not self.alive or self._logging_in or self._needs_person:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            login = self.login
            await login.wait_silent(self._patience.seconds)
            if self._connections is not None and self._connections.login is login:
                self._patience.gave_up()
                self.close()
                return

    async def renewed(self) -> None:
        """Returns once there is a certificate or ticket that the last login did not have."""
        await renewed(self._profile.login, self._ring)

    def renew_hint(self) -> str:
        """How to get a new one."""
        return way_on(self._profile.login, self._ring.user)

    async def credential(self) -> Credential | None:
        """The certificate or ticket of this moment, where the site takes one."""
        return await current(self._profile.login, self._ring)

    def close(self) -> None:
        """Let go of all connections; what runs on the cluster goes on."""
        self._node = None
        if self._connections is not None:
            self._connections.close()
            self._connections = None


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
