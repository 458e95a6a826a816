"""One connection to a forwarded port: any protocol, to a service of the user on the node."""

from __future__ import annotations

import asyncio

from jupyter_hpc.connect.gate_connection import GateView
from jupyter_hpc.connect.gate_http import (
    MAX_HEAD,
    host_allowed,
    may_be_request,
    parse_head,
    refusal,
)
from jupyter_hpc.connect.gate_peer import is_foreign
from jupyter_hpc.relay.bridge import Bridge

#: A browser sends the first line of a request in one go; a word that is not followed by more
#: belongs to another protocol.
WORD_LIMIT = 2.0


class ForwardConnection(Bridge):
    """A connection to a forwarded port: any protocol, so bytes flow from the first one.

    Only if they begin like HTTP, the head is read first and the name in it is checked: a
    service behind a forwarded port often has no password. Other users are hung up on.
    """

    def __init__(self, gate: GateView, port: int, target: str) -> None:
        super().__init__(gate.buffer)
        self._gate = gate
        self._port = port
        self._target = target
        self._pending: bytes | None = b""  # None once the beginning was judged
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

    def received(self, data: bytes | memoryview) -> None:
        if self._pending is None:
            super().received(data)
            return
        self._pending += data
        unfinished = b"\r\n\r\n" not in self._pending and len(self._pending) <= MAX_HEAD
        if not (unfinished and may_be_request(self._pending)):
            self._judge()
        elif b"\n" in self._pending:
            self._set_timer(0)
        elif self._timer is None:
            self._set_timer(WORD_LIMIT)

    def _judge(self) -> None:
        """Send what was held, unless it is a request to a foreign name."""
        self._set_timer(0)
        pending, self._pending = self._pending or b"", None
        head = parse_head(pending)
        endless = head is None and len(pending) > MAX_HEAD and may_be_request(pending)
        if endless or (head is not None and not host_allowed(head, self._port)):
            if self.transport is not None:
                self.transport.write(refusal(403, "This port only answers to localhost."))
                self.transport.close()
        elif pending:
            super().received(pending)

    def eof_received(self) -> bool:
        if self._pending:
            self._judge()
        return super().eof_received()

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._judge) if seconds else None
