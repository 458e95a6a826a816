"""One connection of a browser to the proxy.

The head of each request is looked at, as far as that is cheap: the first one always, later ones
when they begin a new request on a kept connection. Requests for the proxy itself are answered
here; all else goes to Jupyter through the upstream, untouched. While that is interrupted, running
requests wait; a new one is held for a moment and then answered by us: a page load with the
status page, anything else with 503 and Retry-After. The questions that JupyterLab repeats for
ever wait as well, so that no dialog about a lost server covers the notebook.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol

from jupyter_hpc.connect.proxy.control import MAX_BODY_BYTES, Control
from jupyter_hpc.connect.proxy.http import (
    MAX_HEAD_BYTES,
    Head,
    first_line,
    host_allowed,
    parse_head,
    refusal,
)
from jupyter_hpc.connect.proxy.peer import Owner, Peers
from jupyter_hpc.connect.proxy.upstream import Upstream
from jupyter_hpc.relay.bridge import Bridge
from jupyter_hpc.relay.frames import RESET

_log = logging.getLogger(__name__)

#: How long a new request waits for an interrupted upstream.
HOLD_API_SECONDS = 5.0
HOLD_PAGE_SECONDS = 1.0

#: How many of JupyterLab's own questions wait for as long as it takes; further ones get 504.
#: A browser opens six connections to one host, and a page load needs one of them.
MAX_POLLS_HELD = 3

#: A browser opens connections ahead of need; a request that has begun must get on.
MAX_IDLE_SECONDS = 120.0
MAX_HEAD_SECONDS = 10.0

#: How long a client may take to read our answer and close.
LINGER_SECONDS = 2.0


class ProxyView(Protocol):
    """The part of the proxy that a connection uses."""

    port: int
    polls_held: int

    @property
    def control(self) -> Control:
        """Answers what is asked of the proxy itself."""
        ...

    @property
    def peers(self) -> Peers:
        """Who is at the other end of connections."""
        ...

    @property
    def buffer(self) -> memoryview:
        """What all connections read into."""
        ...

    @property
    def upstream(self) -> Upstream | None:
        """What leads to Jupyter, if requests may go there."""
        ...

    def joined(self, connection: asyncio.BaseProtocol) -> bool:
        """Count a new connection; False if there are too many."""
        ...

    def left(self, connection: asyncio.BaseProtocol) -> None: ...


class BrowserConnection(Bridge):
    """One connection to the session's port: a head, then our answer or a stream to Jupyter; on a
    kept connection, a head again.

    phase: "head" (a request is being read), "work" (it is held, or our answer is being made),
    "stream" (bytes flow to Jupyter), "done" (our answer was written, only the close is missing).
    """

    def __init__(self, proxy: ProxyView, port: int) -> None:
        super().__init__(proxy.buffer)
        self._proxy = proxy
        self._port = port
        self._phase: Literal["head", "work", "stream", "done"] = "head"
        self._pending = b""  # what came of the request that is being read or held
        self._head: Head | None = None  # of the request that was sent last
        self._answered = False  # bytes came down since then
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Future[None] | None = None

    @property
    def to_jupyter(self) -> bool:
        """Whether it carries a stream now."""
        return self.stream is not None and not self.stream.finished

    @property
    def answering(self) -> bool:
        """Whether an answer of ours is being made: the last words of an ending session."""
        return self._phase == "work" and self._head is None

    # -- the browser --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._phase = "work"
        if self.transport is not None:
            self._proxy.peers.check(self.transport, self._begin)

    def _begin(self, foreign: bool) -> None:
        """It is known who is there."""
        self._phase = "head"
        if foreign:
            _log.warning("a connection was refused: another user of this computer")
            self._answer(refusal(403, "This port belongs to another user of this computer."))
        elif not self._proxy.joined(self):
            _log.warning("a connection was refused: too many are open")
            self._abort()
        else:
            self._set_timer(MAX_HEAD_SECONDS if self._pending else MAX_IDLE_SECONDS, self._abort)
            if self._pending:
                self._read_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(0)
        if self._work is not None:
            self._work.cancel()
        self._proxy.left(self)
        super().connection_lost(exc)

    def eof_received(self) -> bool:
        if self._phase == "stream":
            return super().eof_received()
        self._read_eof = True
        return self._phase == "work"

    def received(self, data: bytes | memoryview) -> None:
        if self._phase == "done":
            return
        if self._phase == "stream":
            if not self._begins_request(data):
                super().received(data)
                return
            self._phase = "head"
        if self._phase == "head" and not self._pending:
            self._set_timer(MAX_HEAD_SECONDS, self._abort)
        self._pending += data
        if self._phase == "head":
            self._read_request()

    def _begins_request(self, data: bytes | memoryview) -> bool:
        """On a kept connection, what follows an answer is a new request: browsers do not
        send one before. After an upgrade the bytes have no such meaning."""
        upgraded = self._head is not None and self._head.upgrade
        return self._answered and not upgraded and parse_head(bytes(data)) is not None

    def _read_request(self) -> None:
        """Decide as soon as the head (and for our own pages, the body) is complete."""
        end = self._pending.find(b"\r\n\r\n")
        may_be_request = first_line(self._pending) != "other"
        if end < 0 and len(self._pending) <= MAX_HEAD_BYTES and may_be_request:
            return
        head = parse_head(self._pending) if end >= 0 else None
        if head is None:
            # A TLS greeting, say: a browser that tries https first turns to http at once.
            self._abort()
        elif not host_allowed(head, self._port):
            _log.warning("%s %s refused: it names another host", head.method, head.path)
            self._answer(refusal(403, "This port only answers to the name localhost."))
        elif head.own:
            self._read_own(head, end + 4)
        else:
            self._forward(head)

    # -- to Jupyter ---------------------------------------------------------------------

    def _forward(self, head: Head) -> None:
        self._set_timer(0)
        upstream = self._proxy.upstream
        if upstream is None:
            self._answer_instead(head)
        elif upstream.state == "up":
            self._send_request(upstream, head)
        else:
            self._start(self._hold(upstream, head))

    async def _hold(self, upstream: Upstream, head: Head) -> None:
        if self.transport is not None:
            self.transport.pause_reading()
        if head.poll and self._proxy.polls_held < MAX_POLLS_HELD:
            self._proxy.polls_held += 1
            try:
                up = await self._wait_up(upstream)
            finally:
                self._proxy.polls_held -= 1
        else:
            up = await upstream.wait_up(HOLD_PAGE_SECONDS if head.page_load else HOLD_API_SECONDS)
        if up:
            self._send_request(upstream, head)
        else:
            self._answer_instead(head)

    async def _wait_up(self, upstream: Upstream) -> bool:
        """Until it is up, or requests do not go to it any more."""
        while self._proxy.upstream is upstream:
            if await upstream.wait_up(1.0):
                return True
        return False

    def _send_request(self, upstream: Upstream, head: Head) -> None:
        """Send what came so far; from here on bytes flow."""
        if not self.to_jupyter:
            if self._proxy.upstream is not upstream or not upstream.can_open():
                self._answer_instead(head)
                return
            self._stream_paused = False
            self.stream = upstream.open("", self)
        assert self.stream is not None  # noqa: S101 - opened above, or still open
        self._phase = "stream"
        self._head = head
        self._answered = False
        data, self._pending = self._pending, b""
        self.stream.send(data)
        if self.transport is not None and not self._stream_paused:
            self.transport.resume_reading()
        if head.page_load:
            self._set_timer(HOLD_PAGE_SECONDS, self._check_page)

    def _check_page(self) -> None:
        """A page load went upstream, which has fallen silent: show the status instead.

        Safe, because a page load changes nothing and the page loads itself again.
        """
        if self._head is None or self._answered or self._phase != "stream":
            return
        upstream = self._proxy.upstream
        if upstream is not None and upstream.state == "up":
            self._set_timer(HOLD_PAGE_SECONDS, self._check_page)
        else:
            if self.stream is not None:
                self.stream.reset(RESET)  # from now on nothing of Jupyter's answer comes
            self._answer_instead(self._head)

    # -- our own answers ----------------------------------------------------------------

    def _read_own(self, head: Head, body_start: int) -> None:
        length = head.headers.get("content-length", "0")
        if "transfer-encoding" in head.headers or not (length.isdecimal() and length.isascii()):
            self._answer(refusal(411, "The length of the request is missing."))
        elif len(length) > 9 or int(length) > MAX_BODY_BYTES:
            self._answer(refusal(413, "The request is too large."))
        elif len(self._pending) - body_start >= int(length):
            self._set_timer(0)
            body = self._pending[body_start : body_start + int(length)]
            self._start(self._answer_own(head, body))

    async def _answer_own(self, head: Head, body: bytes) -> None:
        upstream = self._proxy.upstream
        is_open = upstream is not None and upstream.state == "up"
        control = self._proxy.control
        owner = await self._owner()
        self._answer(await control.answer(head, body, self._port, owner, is_open=is_open))

    def _answer_instead(self, head: Head) -> None:
        """Answer in Jupyter's place."""
        if head.page_load:
            self._start(self._answer_page(head))
        else:
            away = self._proxy.upstream is not None
            _log.debug("%s %s answered here: Jupyter is away", head.method, head.path)
            self._answer(self._proxy.control.unavailable(head, 504 if head.poll and away else 503))

    async def _answer_page(self, head: Head) -> None:
        self._answer(self._proxy.control.page(head, await self._owner()))

    def _answer(self, data: bytes) -> None:
        """Write our answer and close; what the client still sends is read and dropped.

        To close with unread bytes would reset the connection and lose the answer.
        """
        self._phase = "done"
        self._pending = b""
        if self.stream is not None:
            self.stream.reset(RESET)
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(data)
        with contextlib.suppress(OSError):
            if self.transport.can_write_eof():
                self.transport.write_eof()
        if self._read_eof:
            self.transport.close()
        else:
            self.transport.resume_reading()
            self._set_timer(LINGER_SECONDS, self._abort)

    async def _owner(self) -> Owner:
        """Whose the client is."""
        return await self._proxy.peers.owner(self.transport) if self.transport else "unknown"

    # -- the stream ---------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        self._answered = True
        super().on_data(data)

    def on_reset(self, code: int) -> None:
        """Jupyter is gone: a request that has no answer yet gets ours."""
        if self._phase == "stream" and self._head is not None and not self._answered:
            self._answer_instead(self._head)
        elif self._phase == "stream":
            super().on_reset(code)

    def on_resume(self) -> None:
        self._stream_paused = False
        if self._phase == "stream":
            super().on_resume()

    # -- small things -------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._phase = "work"
        self._work = asyncio.ensure_future(work)

    def _set_timer(self, seconds: float, action: Callable[[], None] | None = None) -> None:
        """Do `action` after `seconds`, in place of what was to be done before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if action is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
