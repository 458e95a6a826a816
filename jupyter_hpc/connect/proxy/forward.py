"""One connection to a forwarded port: any protocol, to a service of the user on the node.

A service behind a forwarded port often has no password, and every page in the browser can send
requests to localhost. So what begins like HTTP is followed, request by request: a browser may
send the request of a foreign page on a connection that it has kept. Heads are judged, nothing is
changed; every other protocol passes as it comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from jupyter_hpc.connect.proxy.connection import LINGER, GateView
from jupyter_hpc.connect.proxy.http import (
    MAX_HEAD,
    Head,
    host_allowed,
    may_be_request,
    page_allowed,
    parse_head,
    refusal,
)
from jupyter_hpc.connect.proxy.peer import is_foreign
from jupyter_hpc.relay.bridge import Bridge

_log = logging.getLogger(__name__)

#: A browser sends the first line of a request in one go; a word that is not followed by more
#: belongs to another protocol.
WORD_LIMIT = 2.0

NOT_OUR_NAME = "This port only answers to localhost."
TOO_LONG = "The head of this request is too long to be judged."
NOT_OUR_PAGE = (
    "This forwarded port answers no requests of other sites' pages, only those of its own pages "
    "and of the session's JupyterLab."
)


class ForwardConnection(Bridge):
    """A connection to a forwarded port: any protocol, so the stream is there from the start.

    `_pending` holds the beginning of a request until it can be judged; `_body` is how much of
    the present request still has to pass before the next one begins. Other users are hung up on.
    """

    def __init__(self, gate: GateView, port: int, target: str) -> None:
        super().__init__(gate.buffer)
        self._gate = gate
        self._port = port
        self._target = target
        self._pending = b""
        self._body = 0
        self._raw = False  # it is no HTTP, or not any more: nothing is looked at
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        link = None if is_foreign(transport.get_extra_info("socket")) else self._gate.open_link
        if link is None or not link.can_open() or not self._gate.joined(self):
            transport.close()
        else:
            self.stream = link.open(self._target, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(0)
        self._gate.left(self)
        super().connection_lost(exc)

    def eof_received(self) -> bool:
        if self._pending:
            self._judge()
        return not self._refused and super().eof_received()

    def received(self, data: bytes | memoryview) -> None:
        if not self._raw and self._body:
            super().received(data[: self._body])
            data, self._body = data[self._body :], max(0, self._body - len(data))
        if self._raw:
            super().received(data)
        elif data and not self._refused:
            self._pending += data
            self._read_heads()

    # -- requests -----------------------------------------------------------------------

    def _read_heads(self) -> None:
        """Judge what has come as far as it can be judged."""
        while self._pending and not (self._raw or self._refused):
            unfinished = b"\r\n\r\n" not in self._pending and len(self._pending) <= MAX_HEAD
            if unfinished and may_be_request(self._pending):
                if b"\n" in self._pending:
                    self._set_timer(0)
                elif self._timer is None:
                    self._set_timer(WORD_LIMIT)
                return
            self._judge()

    def _judge(self) -> None:
        """Send what was held, unless it is a request that a foreign page makes."""
        self._set_timer(0)
        pending, self._pending = self._pending, b""
        head = parse_head(pending)
        if len(pending) > MAX_HEAD and b"\r\n\r\n" not in pending and may_be_request(pending):
            self._refuse(TOO_LONG)  # nobody knows who asks
        elif head is None:
            self._raw = True
            super().received(pending)
        elif not host_allowed(head, self._port):
            self._refuse(NOT_OUR_NAME)
        elif not page_allowed(head, (self._port, self._gate.port)):
            self._refuse(NOT_OUR_PAGE)
        else:
            self._pass(head, pending)

    def _pass(self, head: Head, pending: bytes) -> None:
        """Send an allowed request, as far as it is here; what follows it is the next one."""
        length = body_length(head)
        end = pending.find(b"\r\n\r\n") + 4
        if length is None or end < 4:
            self._raw = True
            super().received(pending)
        else:
            super().received(pending[: end + length])
            self._pending = pending[end + length :]
            self._body = max(0, end + length - len(pending))

    def _refuse(self, sentence: str) -> None:
        """Answer and close; what still comes is read and dropped, so that no reset overtakes
        the answer."""
        self._refused = True
        _log.warning("a request to the forwarded port %d was refused: %s", self._port, sentence)
        if self.stream is not None:
            self.stream.reset()
        if self.transport is not None:
            self.transport.write(refusal(403, sentence))
            with contextlib.suppress(OSError):
                self.transport.write_eof()
            self._set_timer(LINGER)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        if not self._refused:
            self._judge()
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
