"""SshRunner: the Runner of a host behind an SSH connection."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Protocol

from jupyter_hpc.connect.ssh_shell import Marker, command_line, script_for
from jupyter_hpc.connect.ssh_types import RemoteProcess
from jupyter_hpc.errors import CommandFailed, ConnectError, Unreachable
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, missing, overdue, record_command
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

#: sshd allows ten sessions on a connection unless told otherwise; pipes need some.
_AT_ONCE = 6

#: A command that answers with more than this has run wild.
_OUTPUT_LIMIT = 64_000_000

#: After the exit code, a child that was left behind may hold the output open.
_AFTER_EXIT = 2.0

_KILL_TIMEOUT = 5.0


class _Host(Protocol):
    @property
    def host(self) -> str: ...

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess: ...


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
        where = self._connection.host
        record_command(argv, where)
        line = command_line(script_for(argv, self._marker))
        output = bytearray()
        started: list[RemoteProcess] = []
        try:
            await within(self._converse(line, output, stdin, started, timeout), timeout)
        except (TimeoutError, asyncio.TimeoutError):
            raise overdue(argv, where, timeout) from None
        finally:
            for process in started:
                if process.returncode is None:
                    await self._end(process, bytes(output))
                process.close()
        return self._completed(argv, started[0], bytes(output))

    async def _converse(
        self,
        line: str,
        output: bytearray,
        stdin: bytes | None,
        started: list[RemoteProcess],
        timeout: float,
    ) -> None:
        async with self._slots:
            process = await self._connection.start(line, timeout=timeout)
            started.append(process)
            await self._finish(process, output, stdin)

    async def _finish(self, process: RemoteProcess, output: bytearray, stdin: bytes | None) -> None:
        exited = asyncio.Event()

        def on_data(data: bytes) -> None:
            if len(output) <= _OUTPUT_LIMIT:
                output.extend(data)

        process.set_receiver(on_data, lambda error: exited.set())
        if stdin:
            process.write(stdin)
        process.write_eof()
        while not exited.is_set() and process.returncode is None:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await within(exited.wait(), 0.5)
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await within(exited.wait(), _AFTER_EXIT)

    async def _end(self, process: RemoteProcess, output: bytes) -> None:
        """End the remote command: by its channel, and by its process id for old servers."""
        process.terminate()
        pid = self._marker.split(output)[2]
        process.close()
        if pid is None:
            return
        line = command_line(f"(kill {pid}; sleep 1; kill -9 {pid}) >/dev/null 2>&1 </dev/null &")
        with contextlib.suppress(ConnectError, TimeoutError, asyncio.TimeoutError):
            await within(self._kill(line), _KILL_TIMEOUT)

    async def _kill(self, line: str) -> None:
        killer = await self._connection.start(line, timeout=_KILL_TIMEOUT)
        try:
            killer.write_eof()
            await killer.wait_ended()
        finally:
            killer.close()

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
