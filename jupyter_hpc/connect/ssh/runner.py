"""SshRunner: the Runner of a host behind an SSH connection.

One command line means the same in every login shell: sshd hands it to the user's, which
may be bash, zsh, tcsh, fish or something older, each with quoting rules of its own. So the
real POSIX sh script travels as octal escapes inside single quotes, where none of these
shells finds a character that it would change, and /bin/sh decodes and runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jupyter_hpc.connect.ssh.interfaces import RemoteProcess, Said
from jupyter_hpc.errors import CommandFailed, ConnectError, Unreachable
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, logged, missing, overdue
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

#: sshd allows ten sessions on a connection unless told otherwise; pipes need some.
_MAX_COMMANDS_AT_ONCE = 6

#: A command that answers with more than this has run wild.
_MAX_OUTPUT_BYTES = 64_000_000

#: What the end of a command may take: to hear of its start, and to kill it.
_MAX_END_SECONDS = 5.0

#: Start-up files of the login shell run before the command says which process it is.
_MAX_MARKER_SECONDS = 2.0


#: Bytes that no shell, and no printf %b, gives a meaning to inside single quotes.
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:/=+@")

#: csh derivatives refuse words that are too long ("Word too long"); pieces stay far below.
_WORD_CHARACTERS = 900

_DECODE = '/bin/sh -c \'eval "$(printf %b "$@")"\' sh'


@dataclass(frozen=True)
class Marker:
    """What the script prints before the command's own output, on both streams.

    Everything before it was printed by start-up files such as .bashrc. It carries the
    process id, by which the command can be ended from another channel.
    """

    nonce: str

    @property
    def pattern(self) -> re.Pattern[bytes]:
        return re.compile(rb"\x01jhpc-" + self.nonce.encode() + rb":(\d{1,10})\x02")

    def split(self, output: bytes) -> tuple[bytes, bytes | None, int | None]:
        """(noise, the command's own output or None if it never began, process id)."""
        match = self.pattern.search(output)
        if match is None:
            return output, None, None
        return output[: match.start()], output[match.end() :], int(match.group(1))

    def after_last(self, output: bytes) -> bytes:
        """What follows the last marker, or all of it where there is none."""
        return self.pattern.split(output)[-1]

    @property
    def script(self) -> str:
        """The commands that print it."""
        mark = rf"printf '\001jhpc-{self.nonce}:%s\002' $$"
        return f"{mark}; {mark} >&2"


def command_line(script: str) -> str:
    """The POSIX sh script as one line for any login shell."""
    pieces = _pieces(script.encode("utf-8", "surrogateescape"))
    return " ".join([_DECODE, *(f"'{piece}'" for piece in pieces)])


def script_for(argv: Sequence[str], marker: Marker) -> str:
    """A script that becomes the command.

    Where the program is missing, the environment of a login shell is tried: some
    sites put Slurm on the PATH only there. Exit code 127 means that it is nowhere.
    """
    words = [shlex.quote(word) for word in argv]
    mark = f"{marker.script}; "
    found = f"command -v {words[0]} >/dev/null 2>&1"
    inner = shlex.quote(f'{mark}command -v "$1" >/dev/null 2>&1 || exit 127; exec "$@"')
    return (
        f"if {found}; then {mark}exec {' '.join(words)}; fi; "
        f"exec bash -lc {inner} bash {' '.join(words)}"
    )


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
        self._connection, self._line, self._timeout = connection, line, timeout
        self._starting: asyncio.Future[RemoteProcess] | None = None

    async def run(self, stdin: bytes) -> Said:
        """Start it and give it `stdin`; what it said until its end. Raises ConnectError."""
        asked = self._connection.start(self._line, timeout=self._timeout)
        self._starting = asyncio.ensure_future(asked)
        process = await asyncio.shield(self._starting)
        return await process.communicate(stdin, _MAX_OUTPUT_BYTES)

    async def started_after_all(self) -> RemoteProcess | None:
        """The process, if it was asked for and begins soon and has not ended."""
        if self._starting is None:
            return None
        with contextlib.suppress(ConnectError, TimeoutError, asyncio.TimeoutError):
            process = await within(self._starting, _MAX_END_SECONDS)
            return None if process.ended else process
        return None


class SshRunner:
    """Runs commands on the host of a connection, in POSIX sh whatever its login shell."""

    def __init__(self, connection: _Host) -> None:
        self._connection = connection
        self._marker = Marker(secrets.token_hex(8))
        self._slots = asyncio.Semaphore(_MAX_COMMANDS_AT_ONCE)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` there; see Runner.run for the contract.

        Raises ConnectError when the connection is lost meanwhile.
        """
        return await logged(argv, self._connection.host, self._run(argv, stdin, timeout))

    async def _run(self, argv: Sequence[str], stdin: bytes | None, timeout: float) -> Completed:
        line = command_line(script_for(argv, self._marker))
        command = _Command(self._connection, line, timeout)
        try:
            said = await within(self._in_turn(command, stdin or b""), timeout)
        except (TimeoutError, asyncio.TimeoutError):
            suspect = "The connection to the host, or the service behind the command,"
            raise overdue(argv, self._connection.host, timeout, suspect) from None
        finally:
            await self._end(command)
        return self._completed(argv, said)

    async def _in_turn(self, command: _Command, stdin: bytes) -> Said:
        async with self._slots:
            return await command.run(stdin)

    async def _end(self, command: _Command) -> None:
        """End what still runs: by its channel, and by its process id for old servers."""
        process = await command.started_after_all()
        if process is None:
            return
        try:
            if process.returncode is None:
                pid = await self._process_id(process)
                process.terminate()
                if pid is not None:
                    await self._kill(pid)
        finally:
            process.close()

    async def _process_id(self, process: RemoteProcess) -> int | None:
        """Its process id there, as soon as it has said so; None where it does not."""
        for _ in range(int(_MAX_MARKER_SECONDS / 0.05)):
            pid = self._marker.split(process.gathered)[2]
            if pid is not None or process.ended:
                return pid
            await asyncio.sleep(0.05)
        return None

    async def _kill(self, pid: int) -> None:
        line = command_line(f"(kill {pid}; sleep 1; kill -9 {pid}) >/dev/null 2>&1 </dev/null &")
        with contextlib.suppress(ConnectError, TimeoutError, asyncio.TimeoutError):
            await within(self._run_quietly(line), _MAX_END_SECONDS)

    async def _run_quietly(self, line: str) -> None:
        process = await self._connection.start(line, timeout=_MAX_END_SECONDS)
        try:
            process.write_eof()
            await process.wait_ended()
        finally:
            process.close()

    def _completed(self, argv: Sequence[str], said: Said) -> Completed:
        where = self._connection.host
        noise, stdout, _ = self._marker.split(said.stdout)
        if said.returncode is None:
            raise Unreachable(
                f"The connection to {where} was lost while {argv[0]!r} ran there.",
                "Connect again; whether the command has ended is not known.",
            )
        if len(said.stdout) > _MAX_OUTPUT_BYTES:
            raise CommandFailed(
                f"{argv[0]!r} on {where} printed more than {_MAX_OUTPUT_BYTES // 1_000_000} MB.",
                "Ask for less.",
            )
        if said.returncode == 127 and not stdout:
            raise missing(argv[0], where)
        if stdout is None:
            # 255 is ssh's own code: the master of a multiplexed connection is gone.
            lost = said.returncode == 255
            words = printable((noise + said.stderr).decode("utf-8", "replace"), 300).strip()
            why = f": {words.rstrip('.')}" if words else ""
            if lost:
                raise ConnectError(
                    f"The connection to {where} was lost before {argv[0]!r} could begin{why}.",
                    "Connect again.",
                )
            raise CommandFailed(
                f"The login shell on {where} ended before {argv[0]!r} could begin{why}.",
                f"Check that `ssh {where} true` works without an error.",
            )
        _, stderr, _ = self._marker.split(said.stderr)
        return Completed(
            tuple(argv),
            said.returncode,
            stdout.decode("utf-8", "replace"),
            (said.stderr if stderr is None else stderr).decode("utf-8", "replace"),
        )


def _pieces(data: bytes) -> list[str]:
    pieces, current = [], ""
    for byte in data:
        current += chr(byte) if byte in _SAFE else f"\\0{byte:03o}"
        if len(current) >= _WORD_CHARACTERS:
            pieces.append(current)
            current = ""
    return [*pieces, current] if current or not pieces else pieces
