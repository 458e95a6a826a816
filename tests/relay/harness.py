"""A real relay process, pipes to it, and small servers for it to lead to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from jupyter_hpc.connect.tunnel import handshake, link
from jupyter_hpc.relay.bundle import relay_source
from jupyter_hpc.relay.mux import RELAY_READY, Stream
from tests.waiting import until

SECRET = "a secret of more than sixteen characters"

#: Seconds for what others do: on a loaded machine any of them may stand still for a while.
PATIENCE = 30.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that a loaded machine holds up is neither silent nor gone."""
    monkeypatch.setattr(handshake, "REPLY_SECONDS", 60.0)
    monkeypatch.setattr(link, "FACTS_SECONDS", 60.0)
    monkeypatch.setattr(link, "SUSPECT_AFTER_PINGS", 120)


class SocketPipe(asyncio.Protocol):
    """A BytePipe over a connected socket."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self._early = b""
        self._on_data: Callable[[bytes], None] | None = None
        self._on_closed: Callable[[Exception | None], None] = lambda error: None
        self._on_drained: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=1 << 18)

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        if self._on_data is None:
            self._early += data
        else:
            self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self._on_closed(exc)

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        if self._on_drained is not None:
            self._on_drained()

    def set_receiver(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[Exception | None], None],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self._on_data, self._on_closed, self._on_drained = on_data, on_closed, on_drained
        early, self._early = self._early, b""
        if self.closed:
            on_closed(None)
        elif early:
            on_data(early)

    @property
    def receiver(self) -> Callable[[bytes], None]:
        """Whoever gets the bytes: to say something to it that did not come through the pipe."""
        assert self._on_data is not None
        return self._on_data

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.closed:
            self.transport.write(data)

    def queued(self) -> int:
        return self.transport.get_write_buffer_size() if self.transport else 0

    def pause_reading(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Cut it, as a lost connection does: both ends see it close."""
        if self.transport is not None:
            self.transport.abort()


class AttachPipe(SocketPipe):
    """A pipe through the stdin and stdout of `relay.py --attach`, as sshd would give it."""

    process: subprocess.Popen[bytes]


class RelayProcess:
    """A relay in its private folder, made from the joined file."""

    def __init__(self, python: str = sys.executable, jupyter: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="jhr-")
        self.folder = Path(self._folder.name)
        self.jupyter = jupyter or str(self.folder / "jupyter.sock")
        self.python = python
        self.script = self.folder / "relay.py"
        self.script.write_text(relay_source())
        secret = self.folder / "relay.secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> str:
        return str(self.folder / "relay.sock")

    async def start(self, *more: str) -> None:
        with open(self.folder / "relay.log", "ab") as log:
            command = [self.python, str(self.script), "--serve", str(self.folder)]
            self.process = subprocess.Popen(
                [*command, "--jupyter", self.jupyter, *more],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        await until(self.answers, "the relay is up")

    def answers(self) -> bool:
        """Whether it is up; AssertionError if it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "relay.log").read_text()
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.socket_path)
            except OSError:
                return False
            return True

    def memory(self) -> int:
        """Resident kilobytes."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def descriptors(self) -> int:
        assert self.process is not None
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
            self.process = None

    def close(self) -> None:
        try:
            self.stop()
        finally:
            self._folder.cleanup()

    async def pipe(self) -> SocketPipe:
        """A pipe that is a connection to the relay's socket."""
        ours = socket.socket(socket.AF_UNIX)
        # asyncio takes a connection for made that the kernel has no room for yet.
        await asyncio.to_thread(ours.connect, self.socket_path)
        ours.setblocking(False)
        _, pipe = await asyncio.get_running_loop().create_connection(SocketPipe, sock=ours)
        return pipe

    async def attach_pipe(self, talk: bytes = b"") -> AttachPipe:
        """A pipe through an `--attach` helper; `talk` is said before by a start-up file."""
        ours, theirs = socket.socketpair()
        pipe = AttachPipe()
        with theirs:
            theirs.sendall(talk)
            pipe.process = subprocess.Popen(
                [self.python, str(self.script), "--attach", self.socket_path],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        seen = b""
        while RELAY_READY not in seen:
            piece = await asyncio.wait_for(loop.sock_recv(ours, 1), PATIENCE)
            assert piece, seen
            seen += piece
        await loop.create_connection(lambda: pipe, sock=ours)
        return pipe


@contextlib.asynccontextmanager
async def running_relay(python: str = sys.executable) -> AsyncIterator[RelayProcess]:
    relay = RelayProcess(python)
    try:
        await relay.start()
        yield relay
    finally:
        relay.close()


@contextlib.asynccontextmanager
async def unix_server(
    path: str, handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]
) -> AsyncIterator[None]:
    """A server on a unix socket, in Jupyter's place."""

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)  # type: ignore[misc]
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(closing, path)
    try:
        yield
    finally:
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send everything back, then the end."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


class Collector:
    """An endpoint that keeps what comes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.eof = False
        self.reset: int | None = None
        self.paused = False
        self.stream: Stream | None = None
        self._changed = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        self.data += data
        self.stream.consumed(len(data))  # type: ignore[union-attr]
        self._changed.set()

    def on_eof(self) -> None:
        self.eof = True
        self._changed.set()

    def on_reset(self, code: int) -> None:
        self.reset = code
        self._changed.set()

    def on_pause(self) -> None:
        self.paused = True

    def on_resume(self) -> None:
        self.paused = False
        self._changed.set()

    async def wait(self, condition: Callable[[], bool], timeout: float = 60) -> None:
        """Wait until something that came makes the condition true."""

        async def loop() -> None:
            while not condition():
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(loop(), timeout)
