"""The relay's sessions: who may attach a pipe, and what is kept when one is cut.

Stdlib only, Python 3.9. A Session is what one proxy keeps at the relay over all its pipes; the
AcceptedPipe of accept.py is one of these pipes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from typing import Protocol

from jupyter_hpc.relay.bridge import Bridge, read_buffer
from jupyter_hpc.relay.control import CONTROL_TARGET, Control, is_alive
from jupyter_hpc.relay.frames import (
    BROKEN,
    BUILD,
    BUSY,
    EVICTED,
    GONE,
    LEAVING,
    NEW,
    RESUMED,
    STALE,
    SUPERSEDED,
    TAKEN_OVER,
    UNREACHABLE,
    Hello,
)
from jupyter_hpc.relay.mux import Endpoint, Mux, Stream
from jupyter_hpc.relay.targets import TargetRefused, connect_target

#: Sessions without a pipe that are kept, and sessions altogether.
MAX_DETACHED_SESSIONS = 8
MAX_SESSIONS = 32
MAX_PIPES = 64

#: A pipe that brought nothing for so long is dead; the proxy speaks twice a second.
SILENCE_SECONDS = 1800.0

_NOBODY = bytes(16)


class SessionPipe(Protocol):
    """What a session sees of the pipe that carries it; accept.py has it."""

    @property
    def waits(self) -> bool:
        """Whether it has not been given a session yet."""
        ...

    def silent_for(self) -> float:
        """Seconds since the last byte came."""
        ...

    def close(self) -> None: ...


class Session:
    """What one proxy has at the relay; its streams live on while it has no pipe."""

    def __init__(self, sessions: Sessions, hello: Hello) -> None:
        self.id = hello.session
        self.owner = hello.owner
        self.attempt = hello.attempt
        self.pipe: SessionPipe | None = None
        self.detached_at = time.monotonic()
        self._sessions = sessions
        self.mux = Mux(accept=self._accept, on_bye=lambda code: sessions.forget(self))

    def _accept(self, stream: Stream) -> Endpoint:
        if stream.target == CONTROL_TARGET:
            return Control(stream, self._sessions.facts)
        bridge = Bridge(self._sessions.buffer)
        bridge.stream = stream
        self._sessions.connect(stream, bridge)
        return bridge

    def detach(self) -> None:
        self.pipe = None
        self.detached_at = time.monotonic()
        self.mux.detach()

    def end(self, code: int) -> None:
        """Close everything; the proxy is told if it can be."""
        self.mux.bye(code)
        if self.pipe is not None:
            pipe, self.pipe = self.pipe, None
            pipe.close()


class Sessions:
    """All sessions of one relay: decides who may attach, keeps what a cut leaves behind, and
    ends what is replaced or too much."""

    hello_deadline = 10.0

    def __init__(self, secret: bytes, jupyter: str, pid_file: str | None = None) -> None:
        self.buffer = read_buffer()
        self.pipes: dict[SessionPipe, None] = {}  # in the order in which they came
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
            if session.pipe is not None:
                # Before its count is told, the old pipe must not bring anything more.
                session.pipe.close()
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
        if len(self._sessions) >= MAX_SESSIONS:
            return BUSY, None
        session = Session(self, hello)
        self._sessions[session.id] = session
        return NEW, session

    def make_room(self) -> None:
        """A flood of pipes that say nothing pushes out its own oldest, not the next proxy."""
        if len(self.pipes) >= MAX_PIPES:
            for pipe in [pipe for pipe in self.pipes if pipe.waits][:1]:
                pipe.close()

    def _end_older(self, hello: Hello) -> None:
        """A new proxy of the same owner replaces the old ones at once.

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
        if session.pipe is not None:
            pipe, session.pipe = session.pipe, None
            pipe.close()

    def pipe_lost(self, session: Session) -> None:
        """Keep the session for its proxy, but not more of them than we said."""
        session.detach()
        detached = [s for s in self._sessions.values() if s.pipe is None]
        for old in sorted(detached, key=lambda s: s.detached_at)[:-MAX_DETACHED_SESSIONS]:
            old.end(EVICTED)
            self.forget(old)

    def close_silent_pipes(self) -> None:
        for session in list(self._sessions.values()):
            if session.pipe is not None and session.pipe.silent_for() > SILENCE_SECONDS:
                session.pipe.close()
                self.pipe_lost(session)

    def close(self) -> None:
        for session in list(self._sessions.values()):
            session.end(LEAVING)
        self._sessions.clear()
        for pipe in list(self.pipes):
            pipe.close()
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
        """What the proxy may want to know, small enough for one line."""
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
