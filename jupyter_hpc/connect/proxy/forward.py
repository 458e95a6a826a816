"""One connection to a forwarded port: any protocol, to a service of the user on the node.

A service behind a forwarded port often has no password, and every page in the browser can send
requests to localhost. So requests of pages of other sites must be refused here, while every other
protocol passes as it comes, in both directions, without any byte waiting for another.

Both are possible because a request has no effect before its head is complete:

- The stream is opened at once; what the service says first does not wait for the client.
- What may still become the first line of a request ("HELLO", "GET /key", a line of base64) is sent
  on in the same moment, and only remembered, in a short form. A service that speaks HTTP does
  nothing with half a line, and any other protocol gets its bytes in time.
- The end of the line decides. Only `METHOD /path HTTP/1.x` with CR LF, as every browser writes it,
  is a request; what no browser can have sent is never looked at again.
- From there on everything is held until the empty line, and the request is judged before the
  service sees as much as the end of its first line. If it is refused, its stream is reset, and what
  was sent of the line dies with it. No head passes unjudged because of its slowness: browsers send
  it in one go, but a page can make the computer slow, and the head long. One that does not end is
  refused, by its length or after MAX_HEAD_SECONDS.
- After an allowed request and its body the next line is looked at in the same way: a browser may
  send the request of a foreign page on a connection that it has kept.

Nothing that passes is changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from jupyter_hpc.connect.proxy.connection import LINGER_SECONDS, ProxyView
from jupyter_hpc.connect.proxy.http import (
    MAX_HEAD_BYTES,
    Head,
    first_line,
    host_allowed,
    page_allowed,
    parse_head,
    refusal,
    shortened_line,
)
from jupyter_hpc.relay.bridge import Bridge

_log = logging.getLogger(__name__)

#: For the headers of a request whose first line is there: enough to type them by hand.
MAX_HEAD_SECONDS = 60.0

NOT_OUR_NAME = "This port only answers to localhost."
TOO_LONG = "The head of this request is too long to be judged."
TOO_SLOW = "The head of this request did not come to its end."
NOT_OUR_PAGE = (
    "This forwarded port answers no requests of other sites' pages, only those of its own pages "
    "and of the session's JupyterLab."
)


class ForwardConnection(Bridge):
    """A client of a forwarded port, and the stream to the service behind it.

    `_sent_line` is the short form of what was sent of an unfinished line, `_pending` the rest of a
    request's head until it can be judged; `_body` is how much of the present request still has to
    pass before the next one begins. Other users are hung up on.
    """

    def __init__(self, proxy: ProxyView, port: int, target: str) -> None:
        super().__init__(proxy.buffer)
        self._proxy = proxy
        self.port = port
        self._target = target
        self._sent_line = b""
        self._pending = b""
        self._body = 0
        self._raw = False  # it is no HTTP, or not any more: nothing is looked at
        self._refused = False
        self._known = False  # whose the connection is; what comes before is held
        self._eof_before = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.transport is not None:
            self._proxy.peers.check(self.transport, self._begin)

    def _begin(self, foreign: bool) -> None:
        """It is known who is there."""
        self._known = True
        upstream = None if foreign else self._proxy.upstream
        if upstream is None or not upstream.can_open() or not self._proxy.joined(self):
            if self.transport is not None:
                self.transport.close()
            return
        self.stream = upstream.open(self._target, self)
        self._read_heads()
        if self._eof_before and not self.eof_received() and self.transport is not None:
            self.transport.close()

    def close(self) -> None:
        """Hang up: the port is not forwarded any more."""
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(0)
        self._proxy.left(self)
        super().connection_lost(exc)

    def eof_received(self) -> bool:
        if not self._known:
            self._eof_before = True
            return True
        if self._pending:
            self._judge(self._sent_line + self._pending)
        return not self._refused and super().eof_received()

    def received(self, data: bytes | memoryview) -> None:
        if not self._raw and self._body:
            super().received(data[: self._body])
            data, self._body = data[self._body :], max(0, self._body - len(data))
        if self._raw:
            super().received(data)
        elif data and not self._refused:
            self._pending += data
            if self._known:
                self._read_heads()

    # -- requests -----------------------------------------------------------------------

    def _read_heads(self) -> None:
        """Send on what is no request, and judge what is, as far as it has come."""
        while self._pending and not (self._raw or self._refused):
            text = self._sent_line + self._pending
            kind = first_line(text)
            if kind == "request":
                if b"\r\n\r\n" not in text and len(text) <= MAX_HEAD_BYTES:
                    if self._timer is None:
                        self._set_timer(MAX_HEAD_SECONDS)
                    return
                self._judge(text)
            else:
                self._raw = kind == "other"
                self._sent_line = b"" if self._raw else shortened_line(text)
                self._send_pending(len(self._pending))

    def _judge(self, text: bytes) -> None:
        """Send what was held of a request, unless a foreign page makes it."""
        self._set_timer(0)
        head = parse_head(text)
        if head is None or (b"\r\n\r\n" not in text and len(text) > MAX_HEAD_BYTES):
            self._refuse(TOO_LONG)  # nobody knows who asks
        elif not host_allowed(head, self.port):
            self._refuse(NOT_OUR_NAME)
        elif not page_allowed(head, (self.port, self._proxy.port)):
            self._refuse(NOT_OUR_PAGE)
        else:
            self._pass(head, text)

    def _pass(self, head: Head, text: bytes) -> None:
        """Send an allowed request, as far as it is here; what follows it is the next one."""
        length = body_length(head)
        end = text.find(b"\r\n\r\n") + 4
        if length is None or end < 4:
            self._raw = True
            self._send_pending(len(self._pending))
        else:
            rest = end - len(self._sent_line) + length  # of what is held and still to come
            self._body = max(0, rest - len(self._pending))
            self._send_pending(rest)
        self._sent_line = b""

    def _send_pending(self, count: int) -> None:
        """Send the first `count` of the held bytes."""
        pending, self._pending = self._pending, self._pending[count:]
        super().received(pending[:count])

    def _refuse(self, sentence: str, status: int = 403) -> None:
        """Answer and close; what still comes is read and dropped, so that no reset overtakes
        the answer."""
        self._refused = True
        self._pending = b""
        _log.warning("a request to the forwarded port %d was refused: %s", self.port, sentence)
        if self.stream is not None:
            self.stream.reset()
        if self.transport is not None:
            self.transport.write(refusal(status, sentence))
            with contextlib.suppress(OSError):
                self.transport.write_eof()
            self._set_timer(LINGER_SECONDS)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        if not self._refused:
            self._refuse(TOO_SLOW, 408)
        elif self.transport is not None:
            self.transport.abort()


def body_length(head: Head) -> int | None:
    """How many bytes follow the head; None if what follows has no requests to look for.

    Chunks, as no browser sends them in HTTP/1, mean a program, and an upgrade another protocol.
    """
    length = head.headers.get("content-length", "0")
    if head.upgrade or "transfer-encoding" in head.headers:
        return None
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else None
