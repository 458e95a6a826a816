"""The relay's sessions: who may attach a pipe, and what is kept when one is cut.

Stdlib only, Python 3.8. A Door is one pipe before and after its HELLO; a Session is what
one gate keeps at the relay over all its pipes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections import deque

from jupyter_hpc.relay.bridge import Bridge, read_buffer
from jupyter_hpc.relay.descriptors import DescriptorPipe
from jupyter_hpc.relay.frames import (
    BROKEN,
    BUILD,
    BUSY,
    EVICTED,
    FORBIDDEN,
    GONE,
    HELLO_SIZE,
    LEAVING,
    MAGIC,
    NEW,
    NUMBER_SIZE,
    REFUSED,
    RESUMED,
    STALE,
    SUPERSEDED,
    TAKEN_OVER,
    UNKNOWN_VERSION,
    UNREACHABLE,
    Hello,
    Proofs,
    ProtocolError,
    encode_challenge,
    encode_refusal,
)
from jupyter_hpc.relay.mux import Endpoint, Mux, Stream
from jupyter_hpc.relay.targets import TargetRefused, connect_target

CONTROL_TARGET = b"control:"

#: Sessions without a pipe that are kept, and sessions altogether.
MOST_DETACHED = 8
MOST_SESSIONS = 32
MOST_DOORS = 64

#: A pipe that brought nothing for so long is dead; the gate speaks twice a second.
SILENCE = 1800.0

_NOBODY = bytes(16)


class Session:
    """One gate, over all its pipes."""

    def __init__(self, sessions: Sessions, hello: Hello) -> None:
        self.id = hello.session
        self.owner = hello.owner
        self.attempt = hello.attempt
        self.door: Door | None = None
        self.detached_at = time.monotonic()
        self._sessions = sessions
        self.mux = Mux(accept=self._accept, on_bye=lambda code: sessions.forget(self))

    def _accept(self, stream: Stream) -> Endpoint:
        if stream.target == CONTROL_TARGET:
            return Control(stream, self._sessions)
        bridge = Bridge(self._sessions.buffer)
        bridge.stream = stream
        self._sessions.connect(stream, bridge)
        return bridge

    def detach(self) -> None:
        self.door = None
        self.detached_at = time.monotonic()
        self.mux.detach()

    def end(self, code: int) -> None:
        """Close everything; the gate is told if it can be."""
        self.mux.bye(code)
        if self.door is not None:
            door, self.door = self.door, None
            door.close()


class Sessions:
    """All sessions of one relay."""

    hello_deadline = 10.0

    def __init__(self, secret: bytes, jupyter: str, pid_file: str | None = None) -> None:
        self.buffer = read_buffer()
        self.doors: dict[Door, None] = {}  # in the order in which they came
        self.secret = secret
        self._jupyter = jupyter
        self._pid_file = pid_file
        self._started = time.time()
        self._sessions: dict[bytes, Session] = {}
        self._superseded: deque[bytes] = deque(maxlen=64)
        self._connecting: set[asyncio.Future[None]] = set()

    # -- attaching ----------------------------------------------------------------------

    def admit(self, hello: Hello) -> tuple[int, Session | None]:
        """Decide about a proven HELLO: the status to answer with, and the session if it may
        attach."""
        if hello.session in self._superseded:
            return SUPERSEDED, None
        session = self._sessions.get(hello.session)
        if session is not None:
            if hello.attempt <= session.attempt:
                return STALE, None
            if session.door is not None:
                # Before its count is told, the old pipe must not bring anything more.
                session.door.close()
                session.detach()
            session.attempt = hello.attempt
            if session.mux.can_resume(hello.received):
                return RESUMED, session
            session.end(BROKEN)
            self.forget(session)
            return GONE, None
        if hello.established:
            return GONE, None
        self._end_older(hello)
        if len(self._sessions) >= MOST_SESSIONS:
            return BUSY, None
        session = Session(self, hello)
        self._sessions[session.id] = session
        return NEW, session

    def make_room(self) -> None:
        """A flood of pipes that say nothing pushes out its own oldest, not the next gate."""
        if len(self.doors) >= MOST_DOORS:
            for door in [door for door in self.doors if door.waits][:1]:
                door.close()

    def _end_older(self, hello: Hello) -> None:
        """A new gate of the same owner replaces the old ones at once.

        So Jupyter sees their connections close, and starts its own buffering.
        """
        if hello.owner == _NOBODY:
            return
        for session in [s for s in self._sessions.values() if s.owner == hello.owner]:
            self._superseded.append(session.id)
            session.end(TAKEN_OVER)
            self.forget(session)

    def forget(self, session: Session) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
        if session.door is not None:
            door, session.door = session.door, None
            door.close()

    def pipe_lost(self, session: Session) -> None:
        """Keep the session for its gate, but not more of them than we said."""
        session.detach()
        detached = [s for s in self._sessions.values() if s.door is None]
        for old in sorted(detached, key=lambda s: s.detached_at)[:-MOST_DETACHED]:
            old.end(EVICTED)
            self.forget(old)

    def close_silent_pipes(self) -> None:
        for session in list(self._sessions.values()):
            if session.door is not None and session.door.silent_for() > SILENCE:
                session.door.close()
                self.pipe_lost(session)

    def close(self) -> None:
        for session in list(self._sessions.values()):
            session.end(LEAVING)
        self._sessions.clear()
        for door in list(self.doors):
            door.close()
        for task in list(self._connecting):
            task.cancel()

    # -- streams ------------------------------------------------------------------------

    def connect(self, stream: Stream, bridge: Bridge) -> None:
        """Lead a new stream to its target, in the background."""
        task = asyncio.ensure_future(self._connect(stream, bridge))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, stream: Stream, bridge: Bridge) -> None:
        try:
            connected = await connect_target(stream.target, self._jupyter)
        except TargetRefused as refused:
            stream.reset(refused.code)
            return
        if stream.finished:
            connected.close()
            return
        try:
            loop = asyncio.get_event_loop()
            if connected.family == socket.AF_UNIX:
                await loop.create_unix_connection(lambda: bridge, sock=connected)
            else:
                await loop.create_connection(lambda: bridge, sock=connected)
        except OSError:
            connected.close()
            stream.reset(UNREACHABLE)
        if stream.finished and bridge.transport is not None:
            bridge.transport.close()

    # -- facts --------------------------------------------------------------------------

    def facts(self) -> dict[str, object]:
        """What the gate may want to know, small enough for one line."""
        pid = self._jupyter_pid()
        return {
            "build": BUILD,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": self._started,
            "sessions": len(self._sessions),
            "streams": sum(session.mux.streams for session in self._sessions.values()),
            "jupyter_pid": pid,
            "jupyter_alive": None if pid is None else is_alive(pid),
            "jupyter_socket": os.path.exists(self._jupyter),
        }

    def _jupyter_pid(self) -> int | None:
        if self._pid_file is None:
            return None
        try:
            with open(self._pid_file, encoding="ascii") as file:
                return int(file.read(32))
        except (OSError, ValueError):
            return None


def is_alive(pid: int) -> bool:
    """Whether that process runs; one that ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[:1] not in (["Z"], ["X"])
    except FileNotFoundError:
        return False
    except OSError:
        return True


class Control:
    """The endpoint of a "control:" stream: each line is answered with the facts."""

    def __init__(self, stream: Stream, sessions: Sessions) -> None:
        self._stream = stream
        self._sessions = sessions
        self._line_size = 0

    def on_data(self, data: bytes) -> None:
        self._stream.consumed(len(data))
        lines = data.count(b"\n")
        self._line_size = len(data) - data.rfind(b"\n") - 1 + (0 if lines else self._line_size)
        if self._line_size > 4096 or lines > 16 or self._stream.paused:
            self._stream.reset(FORBIDDEN)
            return
        for _ in range(lines):
            self._stream.send(json.dumps(self._sessions.facts()).encode("utf-8") + b"\n")

    def on_eof(self) -> None:
        self._stream.send_eof()

    def on_reset(self, code: int) -> None:
        pass

    def on_pause(self) -> None:
        pass

    def on_resume(self) -> None:
        pass


class Door:
    """One pipe: waits for a HELLO, then carries a session until the pipe or it ends."""

    def __init__(
        self, sessions: Sessions, pipe: DescriptorPipe, helper: socket.socket | None
    ) -> None:
        self._sessions = sessions
        self._pipe = pipe
        self._helper = helper
        self._session: Session | None = None
        self._hello = b""
        self._challenge = os.urandom(NUMBER_SIZE)
        self._proofs = Proofs(sessions.secret, self._challenge)
        self._heard = time.monotonic()
        self._loop = asyncio.get_event_loop()
        self._deadline = self._loop.call_later(sessions.hello_deadline, self._overdue)

    def open(self, data: bytes) -> None:
        """Begin; `data` was read from the pipe already."""
        self._sessions.make_room()
        self._sessions.doors[self] = None
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
        return time.monotonic() - self._heard

    def close(self) -> None:
        """Close the pipe, and with it the helper that passed it."""
        self._deadline.cancel()
        self._sessions.doors.pop(self, None)
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
        if session is not None and session.door is self:
            self._sessions.pipe_lost(session)

    def _on_drained(self) -> None:
        if self._session is not None and self._session.door is self:
            self._session.mux.pump()

    def _on_data(self, data: bytes) -> None:
        self._heard = time.monotonic()
        while data and self._session is None:
            missing = HELLO_SIZE - len(self._hello)
            self._hello += data[:missing]
            data = data[missing:]
            if not self._knock():
                return
        session = self._session
        if data and session is not None and session.door is self:
            try:
                session.mux.receive(data)
            except ProtocolError:
                session.end(BROKEN)
                self._sessions.forget(session)

    def _knock(self) -> bool:
        """Answer a complete HELLO. False: closed. A session that is gone may say HELLO again."""
        if not MAGIC.startswith(self._hello[: len(MAGIC)]):
            return self._refuse(UNKNOWN_VERSION)
        if len(self._hello) < HELLO_SIZE:
            return True
        hello, self._hello = self._proofs.decode_hello(self._hello), b""
        if hello is None:
            return self._refuse(REFUSED)
        status, session = self._sessions.admit(hello)
        received = session.mux.received if session else 0
        self._pipe.write(self._proofs.encode_reply(hello, status, received))
        if session is None:
            if status != GONE:
                self.close()
            return status == GONE
        self._deadline.cancel()
        self._session = session
        session.door = self
        session.mux.attach(self._pipe, hello.received)
        return True

    def _refuse(self, status: int) -> bool:
        self._pipe.write(encode_refusal(status))
        self.close()
        return False
