"""Pipes that come to the relay, and what each must show before it carries a session.

Stdlib only, Python 3.9.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time

from jupyter_hpc.relay.descriptors import DescriptorPipe
from jupyter_hpc.relay.frames import (
    BROKEN,
    GONE,
    HELLO_SIZE,
    MAGIC,
    NUMBER_SIZE,
    REFUSED,
    UNKNOWN_VERSION,
    Proofs,
    ProtocolError,
    encode_challenge,
    encode_refusal,
)
from jupyter_hpc.relay.sessions import Session, Sessions
from jupyter_hpc.relay.targets import peer_uid
from jupyter_hpc.relay.tls import Pipe, TlsServer

#: What an `--attach` says, with the descriptors that it passes.
ATTACH = b"A"

#: Connections that have not said anything yet; more push out the oldest.
_MAX_UNDECIDED = 64


class AcceptedPipe:
    """One pipe that came to the relay: challenges it, admits or refuses its HELLO within a
    deadline, then carries its session until the pipe or the session ends."""

    def __init__(self, sessions: Sessions, pipe: Pipe, helper: socket.socket | None) -> None:
        self._sessions = sessions
        self._pipe = pipe
        self._helper = helper
        self._session: Session | None = None
        self._hello = b""
        self._challenge = os.urandom(NUMBER_SIZE)
        self._proofs = Proofs(sessions.secret, self._challenge)
        self._last_byte_at = time.monotonic()
        self._loop = asyncio.get_event_loop()
        self._deadline = self._loop.call_later(sessions.hello_deadline, self._overdue)

    def open(self, data: bytes) -> None:
        """Begin; `data` was read from the pipe already."""
        self._sessions.make_room()
        self._sessions.pipes[self] = None
        try:
            self._pipe.start(self._on_data, self._on_closed, self._on_drained)
            if self._helper is not None:
                self._loop.add_reader(self._helper, self._helper_ended)
        except OSError:
            self.close()
            return
        self._pipe.write(encode_challenge(self._challenge))
        if data:
            self._on_data(data)

    @property
    def waits(self) -> bool:
        """Whether it has not been given a session yet."""
        return self._session is None

    def silent_for(self) -> float:
        return time.monotonic() - self._last_byte_at

    def close(self) -> None:
        """Close the pipe, and with it the helper that passed it."""
        self._deadline.cancel()
        self._sessions.pipes.pop(self, None)
        self._pipe.close()
        if self._helper is not None:
            helper, self._helper = self._helper, None
            self._loop.remove_reader(helper)
            helper.close()

    def _overdue(self) -> None:
        if self._session is None:
            self.close()

    def _helper_ended(self) -> None:
        if self._helper is not None:
            with contextlib.suppress(OSError):
                if self._helper.recv(64):
                    return
        self._on_closed()

    def _on_closed(self) -> None:
        self.close()
        session = self._session
        if session is not None and session.pipe is self:
            self._sessions.pipe_lost(session)

    def _on_drained(self) -> None:
        if self._session is not None and self._session.pipe is self:
            self._session.mux.pump()

    def _on_data(self, data: bytes) -> None:
        self._last_byte_at = time.monotonic()
        while data and self._session is None:
            missing = HELLO_SIZE - len(self._hello)
            self._hello += data[:missing]
            data = data[missing:]
            if not self._answer_hello():
                return
        session = self._session
        if data and session is not None and session.pipe is self:
            try:
                session.mux.receive(data)
            except ProtocolError:
                session.end(BROKEN)
                self._sessions.forget(session)

    def _answer_hello(self) -> bool:
        """Answer a complete HELLO. False: closed. A session that is gone may say HELLO again."""
        if not MAGIC.startswith(self._hello[: len(MAGIC)]):
            return self._refuse(UNKNOWN_VERSION)
        if len(self._hello) < HELLO_SIZE:
            return True
        hello, self._hello = self._proofs.decode_hello(self._hello), b""
        if hello is None:
            return self._refuse(REFUSED)
        status, session = self._sessions.admit(hello)
        received = session.mux.inbox.received if session else 0
        self._pipe.write(self._proofs.encode_reply(hello, status, received))
        if session is None:
            if status != GONE:
                self.close()
            return status == GONE
        self._deadline.cancel()
        self._session = session
        session.pipe = self
        session.mux.attach(self._pipe, hello.received)
        return True

    def _refuse(self, status: int) -> bool:
        self._pipe.write(encode_refusal(status))
        self.close()
        return False


class Listener:
    """Accepts connections and passed descriptors, and makes an AcceptedPipe of each."""

    def __init__(
        self, listener: socket.socket, sessions: Sessions, tls: TlsServer | None = None
    ) -> None:
        self._tls = tls
        self._loop = asyncio.get_event_loop()
        self._listener = listener
        self._sessions = sessions
        self._undecided: dict[socket.socket, None] = {}  # in the order in which they came
        self._loop.add_reader(listener, self._acceptable)

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for connection in list(self._undecided):
            self._drop(connection)

    def _acceptable(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        local = connection.family == socket.AF_UNIX
        if local and peer_uid(connection) not in (None, os.geteuid(), 0):
            connection.close()
            return
        connection.setblocking(False)
        if not local:
            # It can only be a pipe by itself, whose proxy waits for the challenge.
            self._begin(connection)
            return
        for oldest in list(self._undecided)[:-_MAX_UNDECIDED]:
            self._drop(oldest)
        self._undecided[connection] = None
        self._loop.add_reader(connection, self._first_bytes, connection)
        self._loop.call_later(self._sessions.hello_deadline, self._overdue, connection)

    def _overdue(self, connection: socket.socket) -> None:
        if connection in self._undecided:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._undecided.pop(connection, None)
        self._loop.remove_reader(connection)
        connection.close()

    def _first_bytes(self, connection: socket.socket) -> None:
        """An `--attach` passes two descriptors; anything else is a pipe by itself."""
        try:
            data, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(8))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, ancillary = b"", []
        passed = _passed_descriptors(ancillary)
        if not data or (data[:1] == ATTACH and len(passed) != 2):
            for descriptor in passed:
                os.close(descriptor)
            self._drop(connection)
            return
        self._undecided.pop(connection, None)
        self._loop.remove_reader(connection)
        if data[:1] == ATTACH:
            pipe = DescriptorPipe(passed[0], passed[1], self._sessions.buffer)
            AcceptedPipe(self._sessions, pipe, connection).open(b"")
        else:
            for descriptor in passed:
                os.close(descriptor)
            self._begin(connection, data)

    def _begin(self, connection: socket.socket, data: bytes = b"") -> None:
        """The connection itself is a pipe, from which `data` was read already."""
        descriptor = connection.detach()
        pipe: Pipe = DescriptorPipe(descriptor, descriptor, self._sessions.buffer)
        if self._tls is not None:
            pipe = self._tls.pipe(pipe)
        AcceptedPipe(self._sessions, pipe, None).open(data)


def _passed_descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    passed: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            for start in range(0, len(data) - 3, 4):
                passed.append(int.from_bytes(data[start : start + 4], sys.byteorder))
    return passed
