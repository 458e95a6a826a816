"""Runs what an SSH client asks for on a host of the embedded cluster.

Like sshd: the command line goes to the user's shell, in a process session of its
own with the host's environment; without a terminal the process outlives a lost
connection, with one it is hung up.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable

import asyncssh
from asyncssh.channel import SSHChannel
from asyncssh.stream import SSHServerStreamSession

from jupyter_hpc.demo.layout import Layout, login_shell
from jupyter_hpc.demo.spawner import Spawned, Spawner, SpawnFailed

#: Bytes that a pipe to or from a command may hold; the kernel's default costs throughput.
PIPE_BYTES = 1 << 20


def make_pipe() -> tuple[int, int]:
    """A pipe, large where the platform lets us."""
    read, write = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return read, write


class Inflow(asyncio.Protocol):
    """Reads one of the command's outputs and gives it to the channel."""

    def __init__(self, deliver: Callable[[bytes], None]) -> None:
        self._deliver = deliver
        self.transport: asyncio.ReadTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)  # noqa: S101 - for the type checker
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._deliver(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Outflow(asyncio.BaseProtocol):
    """Writes the client's input to the command and slows the client down when it must."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause, self._resume = pause, resume

    def pause_writing(self) -> None:
        self._pause()

    def resume_writing(self) -> None:
        # Not within the transport's own writing: what comes then may close it half-written.
        asyncio.get_running_loop().call_soon(self._resume)


class HostSftp(asyncssh.SFTPServer):
    """SFTP whose relative paths start in the shared home folder."""

    def __init__(self, chan: asyncssh.SSHServerChannel[bytes], home: str) -> None:
        super().__init__(chan)
        self._home = os.fsencode(home)

    def map_path(self, path: bytes) -> bytes:
        return os.path.join(self._home, path)


class HostSession(asyncssh.SSHServerSession[bytes]):
    """One session channel: a command, a shell, or SFTP."""

    def __init__(
        self, layout: Layout, environment: dict[str, str], spawner: Spawner, tasks: set[object]
    ) -> None:
        self._layout = layout
        self._environment = environment
        self._spawner = spawner
        self._tasks = tasks
        self._command: str | None = None
        self._size: tuple[int, int, int, int] | None = None
        self._terminal: int | None = None
        self._process: Spawned | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._early: list[bytes | None] = []
        self._flows: list[Inflow] = []
        self._sftp: SSHServerStreamSession[bytes] | None = None
        self._lost = False

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._chan = chan

    def pty_requested(
        self, term_type: str | None, term_size: tuple[int, int, int, int], _modes: object
    ) -> bool:
        self._environment["TERM"] = term_type or "dumb"
        self._size = term_size
        return True

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        if subsystem != "sftp":
            return False
        home = str(self._layout.home)

        def serve(_channel: SSHChannel[bytes]) -> HostSftp:
            return HostSftp(self._chan, home)

        self._sftp = SSHServerStreamSession(None, serve, 3)
        self._sftp.connection_made(self._chan)
        return True

    def session_started(self) -> None:
        if self._sftp is not None:
            self._sftp.session_started()
            return
        task = asyncio.create_task(self._run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._sftp is not None:
            self._sftp.data_received(data, datatype)
        elif self._stdin is not None:
            self._stdin.write(data)
        else:
            self._early.append(data)

    def eof_received(self) -> bool:
        if self._sftp is not None:
            return bool(self._sftp.eof_received())
        if self._stdin is None:
            self._early.append(None)
        elif self._terminal is None:
            self._stdin.close()
        return True

    def signal_received(self, name: str) -> None:
        if self._process is not None and not self._process.ended.done():
            number = getattr(signal, f"SIG{name}", None)
            if number is not None:
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        self._size = (width, height, pixwidth, pixheight)
        self._set_size()

    def pause_writing(self) -> None:
        if self._sftp is not None:
            self._sftp.pause_writing()
        for flow in self._flows:
            if flow.transport is not None and not flow.ended.done():
                flow.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._sftp is not None:
            self._sftp.resume_writing()
        for flow in self._flows:
            if flow.transport is not None and not flow.ended.done():
                flow.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        # Closing a terminal hangs up on what runs in it; without one nothing is told.
        self._lost = True
        if self._sftp is not None:
            self._sftp.connection_lost(error)
        if self._stdin is not None:
            self._stdin.close()
        for flow in self._flows:
            if flow.transport is not None:
                flow.transport.close()

    def _set_size(self) -> None:
        closed = self._stdin is not None and self._stdin.is_closing()
        if self._terminal is not None and self._size is not None and not closed:
            width, height, pixwidth, pixheight = self._size
            packed = struct.pack("HHHH", height, width, pixwidth, pixheight)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, packed)

    async def _run(self) -> None:
        try:
            await (self._start_plain() if self._size is None else self._start_terminal())
        except (SpawnFailed, OSError) as error:
            with contextlib.suppress(BrokenPipeError):
                self._chan.write_stderr(f"{error}\n".encode())
            self._chan.exit(255)
            return
        assert self._process is not None  # noqa: S101 - set by both ways to start
        code = (await self._process.ended).code
        # As with sshd, the channel stays open while something still holds its output.
        await asyncio.gather(*(flow.ended for flow in self._flows))
        if self._lost:
            return
        if code < 0:
            name = signal.Signals(-code).name.removeprefix("SIG")
            self._chan.exit_with_signal(name, False, "")
        else:
            self._chan.exit(code)

    def _argv(self) -> tuple[list[str], str]:
        shell = login_shell()
        if self._command is None:
            return [f"-{os.path.basename(shell)}"], shell
        return [os.path.basename(shell), "-c", self._command], shell

    async def _start_plain(self) -> None:
        in_read, in_write = make_pipe()
        out_read, out_write = make_pipe()
        err_read, err_write = make_pipe()
        argv, shell = self._argv()
        try:
            self._process = await self._spawner.spawn(
                argv,
                executable=shell,
                env=self._environment,
                cwd=str(self._layout.home),
                stdin=in_read,
                stdout=out_write,
                stderr=err_write,
            )
        finally:
            for fd in (in_read, out_write, err_write):
                os.close(fd)
        await self._connect_input(in_write)
        await self._connect_output(out_read, self._chan.write)
        await self._connect_output(err_read, self._chan.write_stderr)

    async def _start_terminal(self) -> None:
        master, slave = os.openpty()
        self._terminal = master
        self._set_size()
        self._environment["SSH_TTY"] = os.ttyname(slave)
        argv, shell = self._argv()
        try:
            self._process = await self._spawner.spawn(
                argv,
                executable=shell,
                env=self._environment,
                cwd=str(self._layout.home),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                terminal=True,
            )
        finally:
            os.close(slave)
        await self._connect_output(os.dup(master), self._chan.write)
        await self._connect_input(master)

    async def _connect_input(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_write_pipe(
            lambda: Outflow(self._chan.pause_reading, self._chan.resume_reading),
            os.fdopen(fd, "wb", 0),
        )
        self._stdin = transport
        for data in self._early:
            if data is not None:
                transport.write(data)
            elif self._terminal is None:
                transport.close()
        self._early.clear()
        if self._lost:
            transport.close()

    async def _connect_output(self, fd: int, write: Callable[[bytes], None]) -> None:
        def deliver(data: bytes) -> None:
            try:
                if not self._lost:
                    write(data)
            except BrokenPipeError:
                # The client has closed the channel, and input that nobody reads hides its end.
                transport.close()

        loop = asyncio.get_running_loop()
        transport, flow = await loop.connect_read_pipe(
            lambda: Inflow(deliver), os.fdopen(fd, "rb", 0)
        )
        self._flows.append(flow)
        if self._lost:
            transport.close()
