"""When a lost connection is made again: the pipe of an open session, or the login before that.

    pipes = PipeReconnect(link, open_pipe, probe, retrying)
    await pipes.run()       until cancelled, or until a new pipe makes no sense any more
    logins = LoginReconnect(connections, retrying)
    job = await logins.through(operation)

`retrying()` is the Retry of this outage, made when there is one. `await open_pipe(reachable, ask)
-> BytePipe` makes a pipe; `ask` as in retry.py. `await probe()` returns once the login host
answers on the network (a connected socket, say, which is passed on as `reachable`). Neither class
knows anything of SSH.

The rules. A pipe that has closed is replaced at once. A silent one is kept: while it is silent,
the host is probed, and the first answer starts the only handshake. If the old pipe speaks
meanwhile, the new one is given up. Pipes that close again and again as soon as they are open
are replaced with growing pauses. Where a person is needed, the old pipe is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from jupyter_hpc.connect.session.retry import AWAY, LoginLimit, Retry, limited
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.link import Link, session_taken
from jupyter_hpc.errors import HpcError, PipeRefused, Unreachable
from jupyter_hpc.waiting import finish

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: A pipe that closes this soon was of no use; after so many of them in a row, pauses begin.
_SHORT_LIFE_SECONDS = 0.5
_MAX_SHORT_LIVES = 5

#: A lost second hop, with the login alive, is tried again so often.
_MAX_HOP_RETRIES = 5


class OpenPipe(Protocol):
    """Makes a new pipe to the relay; see the module's text."""

    def __call__(self, reachable: Any, ask: bool) -> Awaitable[BytePipe]: ...


class LoginWatch(Protocol):
    """What pipes lead through; ClusterConnections is one."""

    @property
    def login_limit(self) -> LoginLimit: ...

    async def lost(self) -> None: ...


class PipeReconnect:
    """Keeps one link supplied with pipes."""

    def __init__(
        self,
        link: Link,
        open_pipe: OpenPipe,
        probe: Callable[[], Awaitable[Any]] | None,
        retrying: Callable[[], Retry],
        login: LoginWatch | None = None,
    ) -> None:
        self._link = link
        self._open_pipe = open_pipe
        self._probe = probe
        self._retrying = retrying
        self._login = login
        self._attaching = False
        self._attached_at = self._up_at = float("-inf")
        self._short_lives = 0

    async def run(self) -> None:
        """Recover the link whenever it is in trouble.

        Raises what makes new pipes pointless: SessionTaken, SessionEnded, and PipeRefused
        from a relay that does not want this session.
        """
        self._up_at = time.monotonic()
        while True:
            await self._link.wait_trouble()
            if self._link.taken:
                raise session_taken()
            if self._login is not None:
                self._login.login_limit.served(time.monotonic() - self._up_at)
            await self._pause_after_short_lives()
            await self._recover()
            self._up_at = time.monotonic()

    async def _pause_after_short_lives(self) -> None:
        """Something at the other end closes each pipe: a step that is killed, a broken relay."""
        short = time.monotonic() - self._attached_at < _SHORT_LIFE_SECONDS
        self._short_lives = self._short_lives + 1 if short else 0
        too_many = self._short_lives - _MAX_SHORT_LIVES
        if too_many > 0:
            error = PipeRefused(
                "The pipe to the node closes as soon as it is open.",
                "Something on the cluster may be ending it; it is tried again.",
            )
            await self._retrying().pause(error, too_many)

    async def _recover(self) -> None:
        """Until the link is up, by a new pipe or because the old one speaks again."""
        attaching = asyncio.create_task(self._retrying().until_done(self._attach))
        up = asyncio.create_task(self._link.wait_up())
        try:
            while not attaching.done():
                await asyncio.wait((attaching, up), return_when=asyncio.FIRST_COMPLETED)
                if up.done() and not self._attaching:
                    break
                if up.done():
                    await asyncio.wait((attaching,))
            if attaching.done():
                await attaching
        finally:
            await finish(attaching, up)

    async def _attach(self, ask: bool) -> None:
        reachable, retry = None, self._retrying()
        if self._probe is not None:
            reachable = await retry.probe_until_answered(self._probe)
        # A person may take all the time that the prompt leaves.
        limit = None if ask else retry.timing.attempt_limit
        await limited(self._while_it_answers(self._open_and_attach(reachable, ask)), limit)

    async def _while_it_answers(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it; Unreachable as soon as the way to the login host is known to be lost."""
        if self._login is None:
            await work
            return
        doing, lost = asyncio.create_task(work), asyncio.create_task(self._login.lost())
        try:
            await asyncio.wait((doing, lost), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise Unreachable(
                    "The connection to the login host was lost before a pipe was open.",
                    "It is tried again.",
                )
            await doing
        finally:
            await finish(doing, lost)

    async def _open_and_attach(self, reachable: Any, ask: bool) -> None:
        pipe = await self._open_pipe(reachable, ask)
        self._attaching = True
        try:
            await self._link.attach(pipe)
        finally:
            self._attaching = False
        self._attached_at = time.monotonic()


class Login(Protocol):
    """What is logged in to again; ClusterConnections is one."""

    @property
    def alive(self) -> bool: ...

    async def probe(self) -> Any: ...

    async def log_in(self, *, ask: bool, reachable: Any = None) -> None: ...


class LoginReconnect:
    """Does things that need the login connection, through its loss.

    Until a session is open, commands run over the login connection; whatever was under way
    is done again over the next one.
    """

    def __init__(self, login: Login, retrying: Callable[[], Retry]) -> None:
        self._login = login
        self._retrying = retrying

    async def through(self, operation: Callable[[], Awaitable[T]]) -> T:
        """The result of `operation`, begun again each time the connection is lost."""
        retries = 0
        while True:
            try:
                return await operation()
            except Unreachable as error:
                if self._login.alive:
                    retries += 1
                    if retries > _MAX_HOP_RETRIES:
                        raise
                    _log.info("a hop was lost and is tried again: %s", error.message)
                    await asyncio.sleep(0.5 * retries)
                else:
                    await self._log_in(error)

    async def _log_in(self, lost: HpcError) -> None:
        retry = self._retrying()
        retry.outage.began(f"{lost.message} Logging in again.")
        await retry.until_done(self._attempt, again=AWAY)
        retry.outage.over()

    async def _attempt(self, ask: bool) -> None:
        reachable = await self._retrying().probe_until_answered(self._login.probe)
        await self._login.log_in(ask=ask, reachable=reachable)
