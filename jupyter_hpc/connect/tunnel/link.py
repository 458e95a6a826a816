"""The laptop's end of the lossless stream: one Link over many pipes.

    link = Link(secret, owner, on_event)    secret: the text in the relay's secret file
    await link.attach(pipe)                 HELLO, REPLY, replay; drops and closes the old pipe
    stream = link.open(target, endpoint)    "" = Jupyter; "tcp:127.0.0.1:6006"; "unix:/path"
    link.state                              "down" (no pipe) | "suspect" (silent) | "up"
    link.silence, link.round_trip           seconds
    await link.wait_up(timeout) -> bool     await link.wait_trouble()
    await link.facts() -> dict              what the relay knows (pid, Jupyter alive, build)
    await link.close()                      BYE: the relay closes what this link opened

A `BytePipe` (ssh/interfaces.py) is what transports.py gives us; its first words are in
handshake.py.
Events (LinkEvent) go to `on_event`, in the event loop's thread. The connections that run through a
Link do not notice a change of pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.handshake import Handshake, closed_early, refused
from jupyter_hpc.connect.tunnel.link_events import (
    LinkAlive,
    LinkDown,
    LinkEvent,
    LinkLost,
    LinkSuspect,
    LinkUp,
)
from jupyter_hpc.connect.tunnel.one_shot import OneShot
from jupyter_hpc.errors import ConnectError, SessionTaken
from jupyter_hpc.relay import frames
from jupyter_hpc.relay.mux import Endpoint, Mux, Stream
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: Between two pings.
PING_SECONDS = 0.5
#: Pings without any byte received, after which the pipe is suspect. Counted in ticks of ours and
#: not in seconds, so that a process that was stopped and goes on does not suspect at once.
SUSPECT_AFTER_PINGS = 4
#: A gap of this length between two ticks is taken for sleep.
SLEEP_JUMP_SECONDS = 5.0
#: For the relay's answer to a question about itself.
FACTS_SECONDS = 5.0


class Link:
    """One session with a relay, over all its pipes.

    Whoever has a stream keeps it while pipes come and go: `attach` replaces the pipe, `state` and
    the events say how the present one does. Streams are reset only when the relay has lost the
    session, or another process has taken it over.
    """

    def __init__(
        self, secret: str, owner: str, on_event: Callable[[LinkEvent], None] | None = None
    ) -> None:
        self._new_session()
        self.state: Literal["down", "suspect", "up"] = "down"
        self.relay_build = ""
        self.taken = False
        self._secret = frames.digest(secret)
        self._owner = frames.owner_id(owner)
        self.on_event = on_event  #: who is told; the first to ask for a pipe need not be
        self._pipe: BytePipe | None = None
        self._last_received = time.monotonic()
        self._silent_pings = 0
        self._sleep: SleepWatch | None = None  # while it ticks
        self._ticker: asyncio.TimerHandle | None = None
        self._up = asyncio.Event()
        self._trouble = asyncio.Event()
        self._trouble.set()

    def _new_session(self) -> None:
        self._session = os.urandom(16)
        self._attempt = 0
        self._established = False
        self._mux = Mux(on_bye=self._on_bye)

    # -- state --------------------------------------------------------------------------

    @property
    def silence(self) -> float:
        """Seconds since the last byte came."""
        return time.monotonic() - self._last_received

    @property
    def round_trip(self) -> float:
        """Seconds until a ping was answered, the last time; 0 before that."""
        return self._mux.round_trip

    @property
    def streams(self) -> int:
        return self._mux.streams

    async def wait_up(self, timeout: float | None = None) -> bool:
        """Wait until the link is up; False if it is not after `timeout` seconds."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._up.wait(), timeout)
        return self.state == "up"

    async def wait_trouble(self) -> None:
        """Wait until the link is suspect or down."""
        await self._trouble.wait()

    def doubt(self) -> None:
        """The pipe is not likely to live: suspect it soon if nothing comes."""
        self._silent_pings = max(self._silent_pings, SUSPECT_AFTER_PINGS - 1)

    def _tell(self, event: LinkEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def _set_state(self, state: Literal["down", "suspect", "up"]) -> None:
        if state != self.state:
            _log.info("link %s -> %s, silent for %.1f s", self.state, state, self.silence)
        self.state = state
        if state == "up":
            self._up.set()
            self._trouble.clear()
        else:
            self._up.clear()
            self._trouble.set()

    # -- streams ------------------------------------------------------------------------

    def can_open(self) -> bool:
        """Whether one more connection is within the limits."""
        return self._mux.can_open()

    def open(self, target: str, endpoint: Endpoint) -> Stream:
        """A new stream; if no pipe is there, what is sent waits for one."""
        return self._mux.open(target.encode("utf-8"), endpoint)

    async def ask(self, target: str, question: bytes, seconds: float, mark: bytes = b"") -> bytes:
        """One question on a stream of its own: what came until `mark`, or until its end.

        TimeoutError (or asyncio's own) if neither comes in time.
        """
        asked = OneShot(mark)
        stream = asked.stream = self._mux.open(target.encode("utf-8"), asked)
        stream.send(question)
        try:
            return await within(asked.answer, seconds)
        finally:
            stream.reset()

    async def facts(self) -> dict[str, Any]:
        """Ask the relay about itself and Jupyter; ConnectError if it does not answer."""
        if not self.can_open():
            raise ConnectError("Too many connections are open to ask the relay.", "Try again.")
        try:
            answer = await self.ask("control:", b'{"ask": "facts"}\n', FACTS_SECONDS, b"\n")
            facts: dict[str, Any] = json.loads(answer.partition(b"\n")[0])
            return facts
        except (asyncio.TimeoutError, ValueError, OSError) as error:
            raise ConnectError(
                "The relay on the node did not answer.", "The connection may be interrupted."
            ) from error

    # -- pipes --------------------------------------------------------------------------

    async def attach(self, pipe: BytePipe) -> None:
        """Carry the link over `pipe` from now on. The old pipe is closed first.

        ConnectError (PipeRefused, SessionTaken) if the relay does not accept it; the pipe
        is closed then, and the link is down until the next attach.
        """
        if self.taken:
            # Two processes that take the session from each other in turn would help nobody.
            pipe.close()
            raise session_taken()
        # Before the relay learns how much has come, the old pipe must bring nothing more.
        self._drop_pipe()
        self._set_state("down")
        self._pipe = pipe
        hello = self._hello()
        handshake = Handshake(pipe, self._secret)
        try:
            reply = await handshake.hello(hello)
            if reply.status == frames.GONE and self._pipe is pipe:
                self._lose_session()
                reply = await handshake.hello(self._hello())
            if self._pipe is not pipe:
                raise closed_early()  # another one was attached meanwhile
            self._check(reply)
            if handshake.closed:
                raise closed_early()  # it brought the answer before
            self._attached(pipe, reply, handshake.rest)
        except BaseException:
            if self._pipe is pipe:
                self._drop_pipe()
            raise

    def _hello(self) -> frames.Hello:
        """Who asks to attach, and what it has; the next attempt of this session."""
        self._attempt += 1
        return frames.Hello(
            self._session,
            self._owner,
            self._attempt,
            self._mux.inbox.received,
            self._established,
            os.urandom(frames.NUMBER_SIZE),
        )

    def _check(self, reply: frames.Reply) -> None:
        if reply.status in (frames.NEW, frames.RESUMED):
            return
        if reply.status == frames.SUPERSEDED:
            self._on_taken()
            raise session_taken()
        raise refused(reply.status)

    def _attached(self, pipe: BytePipe, reply: frames.Reply, rest: bytes) -> None:
        self._note_received()
        try:
            self._mux.attach(pipe, reply.received)
        except frames.ProtocolError as error:
            self._lose_session()
            raise ConnectError(
                "The relay on the node counts otherwise than this end does.",
                "A new session with it will be tried.",
            ) from error
        self.relay_build = reply.build
        self._established = True
        pipe.set_receiver(
            partial(self._on_data, pipe),
            partial(self._on_closed, pipe),
            partial(self._on_drained, pipe),
        )
        self._set_state("up")
        how = "resumed" if reply.status == frames.RESUMED else "with a new session"
        _log.info("attached, %s; relay %s", how, reply.build)
        self._tell(LinkUp())
        if self._ticker is None:
            self._sleep = SleepWatch()
            self._tick()
        if rest:
            self._on_data(pipe, rest)

    async def close(self) -> None:
        """End the session at both ends; what was written is given a second to leave."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        pipe = self._pipe
        self._mux.bye(frames.LEAVING)
        if pipe is not None:
            await asyncio.sleep(0)  # packets of one turn of the loop leave together, at its end
            for _ in range(100):
                if not pipe.queued():
                    break
                await asyncio.sleep(0.01)
        self._drop_pipe()
        self._set_state("down")

    def _drop_pipe(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
            self._mux.detach()

    # -- called by pipe and mux ---------------------------------------------------------

    def _on_data(self, pipe: BytePipe, data: bytes) -> None:
        if pipe is not self._pipe:
            return
        self._note_received()
        try:
            self._mux.receive(data)
        except frames.ProtocolError as error:
            # A new session is clean; with this one nobody knows what was delivered.
            self._lose_session()
            self._lost_pipe(error)

    def _on_closed(self, pipe: BytePipe, error: Exception | None) -> None:
        if pipe is self._pipe:
            self._lost_pipe(error)

    def _lost_pipe(self, error: Exception | None) -> None:
        self._drop_pipe()
        if self.state != "down":
            self._set_state("down")
            _log.info("the pipe has closed: %s", error or "by the other end")
            self._tell(LinkDown())

    def _on_drained(self, pipe: BytePipe) -> None:
        if pipe is self._pipe:
            self._mux.pump()

    def _on_bye(self, code: int) -> None:
        """The relay ends the session; called by the mux, in the middle of its bytes."""
        if code == frames.TAKEN_OVER:
            self._on_taken()
        else:
            self._lose_session()
        self._lost_pipe(None)

    def _on_taken(self) -> None:
        self.taken = True
        self._end_session()

    def _lose_session(self) -> None:
        self._end_session()
        self._tell(LinkLost())

    def _end_session(self) -> None:
        """Reset what is open; the next pipe begins a new session."""
        _log.info("the relay's session is over for this link")
        self._mux.end()
        self._new_session()

    # -- silence ------------------------------------------------------------------------

    def _note_received(self) -> None:
        if self.state == "suspect":
            self._set_state("up")
            self._tell(LinkAlive())
        self._last_received = time.monotonic()
        self._silent_pings = 0

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(PING_SECONDS, self._tick)
        self._silent_pings += 1
        if self.state == "up" and self._silent_pings > SUSPECT_AFTER_PINGS:
            self._set_state("suspect")
            self._tell(LinkSuspect(self.silence))
        slept = self._sleep.slept() if self._sleep is not None else 0.0
        if slept:
            _log.info("this computer slept for about %.0f s", slept)
            self.doubt()
        self._mux.ping()


class SleepWatch:
    """Notices that time has passed in which this process did not run.

    time.monotonic() stands still during a suspend on Linux, time.time() does not; a process
    that was stopped sees both jump.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clocks = (wall, steady)
        self._last = (wall(), steady())

    def slept(self) -> float:
        """Seconds since the last call, if they are many; else 0."""
        now = (self._clocks[0](), self._clocks[1]())
        gap = max(now[0] - self._last[0], now[1] - self._last[1])
        self._last = now
        return gap if gap >= SLEEP_JUMP_SECONDS else 0.0


def session_taken() -> SessionTaken:
    """The error for a link that another one of the same owner has replaced."""
    return SessionTaken(
        "Another jupyter-hpc on this computer has taken over this session.",
        "Use that one, or end it with 'jupyter-hpc disconnect'.",
    )
