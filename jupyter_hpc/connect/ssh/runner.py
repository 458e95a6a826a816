"""SshRunner: the Runner of a host behind an SSH connection."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Protocol

from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
from jupyter_hpc.connect.ssh.shell import Marker, command_line, script_for
from jupyter_hpc.errors import CommandFailed, ConnectError, Unreachable
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, logged, missing, overdue
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

#: sshd allows ten sessions on a connection unless told otherwise; pipes need some.
_AT_ONCE = 6

#: A command that answers with more than this has run wild.
_OUTPUT_LIMIT = 64_000_000

#: After the exit code, a child that was left behind may hold the output open.
_AFTER_EXIT = 2.0

#: What the end of a command may take: to hear of its start, and to kill it.
_END_TIMEOUT = 5.0

#: Start-up files of the login shell run before the command says which process it is.
_UNTIL_MARKER = 2.0


class _Host(Protocol):
    @property
    def host(self) -> str: ...

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess: ...


class _Command:
    """A command on its way: once asked for, its start is not taken back, only its run.

    Between the request and the server's answer the command may begin, and whoever stops
    waiting in this moment would not know what to end.
    """

    def __init__(self, connection: _Host, line: str, timeout: float) -> None:
        self.output = bytearray()
        self.exited = asyncio.Event()
        self._connection, self._line, self._timeout = connection, line, timeout
        self._starting: asyncio.Task[RemoteProcess] | None = None

    async def started(self) -> RemoteProcess:
        """The process, asked for at the first call. Raises ConnectError."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> RemoteProcess:
        process = await self._connection.start(self._line, timeout=self._timeout)
        process.set_receiver(self._on_data, lambda error: self.exited.set())
        return process

    def _on_data(self, data: bytes) -> None:
        if len(self.output) <= _OUTPUT_LIMIT:
            self.output.extend(data)

    async def started_after_all(self) -> RemoteProcess | None:
        """The process if it was asked for and begins soon."""
        if self._starting is None:
            return None
        with contextlib.suppress(ConnectError, TimeoutError, asyncio.TimeoutError):
            return await within(self._starting, _END_TIMEOUT)
        return None

    async def process_id(self, marker: Marker) -> int | None:
        """Its process id there, as soon as it has said so; None where it does not."""
        for _ in range(int(_UNTIL_MARKER / 0.05)):
            pid = marker.split(bytes(self.output))[2]
            if pid is not None or self.exited.is_set():
                return pid
            await asyncio.sleep(0.05)
        return None


class SshRunner:
    """Runs commands on the host of a connection, in POSIX sh whatever its login shell."""

    def __init__(self, connection: _Host) -> None:
        self._connection = connection
        self._marker = Marker(secrets.token_hex(8))
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` there; see Runner.run for the contract.

        Raises ConnectError when the connection is lost meanwhile.
        """
        return await logged(argv, self._connection.host, self._run(argv, stdin, timeout))

    async def _run(self, argv: Sequence[str], stdin: bytes | None, timeout: float) -> Completed:
        where = self._connection.host
        line = command_line(script_for(argv, self._marker))
        command = _Command(self._connection, line, timeout)
        try:
            await within(self._converse(command, stdin), timeout)
        except (TimeoutError, asyncio.TimeoutError):
            raise overdue(argv, where, timeout) from None
        finally:
            await self._end(command)
        return self._completed(argv, await command.started(), bytes(command.output))

    async def _converse(self, command: _Command, stdin: bytes | None) -> None:
        async with self._slots:
            process = await command.started()
            if stdin:
                process.write(stdin)
            process.write_eof()
            while not command.exited.is_set() and process.returncode is None:
                with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                    await within(command.exited.wait(), 0.5)
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await within(command.exited.wait(), _AFTER_EXIT)

    async def _end(self, command: _Command) -> None:
        """End what still runs: by its channel, and by its process id for old servers."""
        process = await command.started_after_all()
        if process is None:
            return
        try:
            if process.returncode is None:
                pid = await command.process_id(self._marker)
                process.terminate()
                if pid is not None:
                    await self._kill(pid)
        finally:
            process.close()

    async def _kill(self, pid: int) -> None:
        line = command_line(f"(kill {pid}; sleep 1; kill -9 {pid}) >/dev/null 2>&1 </dev/null &")
        with contextlib.suppress(ConnectError, TimeoutError, asyncio.TimeoutError):
            await within(self._run_quietly(line), _END_TIMEOUT)

    async def _run_quietly(self, line: str) -> None:
        process = await self._connection.start(line, timeout=_END_TIMEOUT)
        try:
            process.write_eof()
            await process.wait_ended()
        finally:
            process.close()

    def _completed(self, argv: Sequence[str], process: RemoteProcess, output: bytes) -> Completed:
        where = self._connection.host
        noise, stdout, _ = self._marker.split(output)
        if process.returncode is None:
            raise Unreachable(
                f"The connection to {where} was lost while {argv[0]!r} ran there.",
                "Connect again; whether the command has ended is not known.",
            )
        if len(output) > _OUTPUT_LIMIT:
            raise CommandFailed(
                f"{argv[0]!r} on {where} printed more than {_OUTPUT_LIMIT // 1_000_000} MB.",
                "Ask for less.",
            )
        if process.returncode == 127 and not stdout:
            raise missing(argv[0], where)
        if stdout is None:
            # 255 is ssh's own code: the master of a multiplexed connection is gone.
            lost = process.returncode == 255
            said = printable((noise + process.stderr).decode("utf-8", "replace"), 300).strip()
            why = f": {said.rstrip('.')}" if said else ""
            if lost:
                raise ConnectError(
                    f"The connection to {where} was lost before {argv[0]!r} could begin{why}.",
                    "Connect again.",
                )
            raise CommandFailed(
                f"The login shell on {where} ended before {argv[0]!r} could begin{why}.",
                f"Check that `ssh {where} true` works without an error.",
            )
        _, stderr, _ = self._marker.split(process.stderr)
        return Completed(
            tuple(argv),
            process.returncode,
            stdout.decode("utf-8", "replace"),
            (process.stderr if stderr is None else stderr).decode("utf-8", "replace"),
        )
