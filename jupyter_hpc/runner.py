"""The one seam to commands: `Runner.run(argv) -> Completed`.

Everything above this line builds argument vectors and reads text; whether a
command runs here, over SSH or in a test is decided by the runner it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import posixpath
import shlex
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jupyter_hpc.errors import CommandError, CommandMissing, CommandTimeout
from jupyter_hpc.text import command_words, printable
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: When set, every command of every runner is appended to this file as one JSON
#: line {"argv": [...], "on": "..."}; the tests compare it with the conformance table.
COMMAND_LOG_VARIABLE = "JUPYTER_HPC_COMMAND_LOG"

#: Seconds a command may take unless its caller knows better. A throttled squeue
#: sleeps and retries for ever, so there is no call without a deadline.
DEFAULT_TIMEOUT = 30.0

#: More than this no command of ours has to say; one that prints without an end would
#: take the memory of the session in seconds.
MAX_OUTPUT_BYTES = 64 << 20


@dataclass(frozen=True)
class Completed:
    """What a finished command left behind; text is decoded, bad bytes replaced."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0


class Runner(Protocol):
    """Runs one command to its end on one host."""

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` and return its result, whatever its exit code.

        Raises CommandMissing if the program does not exist there, CommandError if it
        cannot be started, and CommandTimeout (after ending the command) when `timeout`
        seconds pass.
        """
        ...


def prefixed(prefix: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The command as it is started behind other words, such as `ssh login1` or `env PATH=…`."""
    if prefix and posixpath.basename(prefix[0]) == "ssh":
        # ssh joins its arguments with blanks and gives them to a shell on the far
        # side, so they are quoted for it; any other prefix takes them as they are.
        return [*prefix, shlex.join(argv)]
    return [*prefix, *argv]


def record_command(argv: Sequence[str], on: str) -> None:
    """Append the command to the test run's record, if one is kept."""
    path = os.environ.get(COMMAND_LOG_VARIABLE)
    if path:
        line = json.dumps({"argv": list(argv), "on": on}) + "\n"
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as log:
            log.write(line)


async def logged(argv: Sequence[str], on: str, work: Awaitable[Completed]) -> Completed:
    """What `work` returns, with one line in the log: the command, its exit code, its time."""
    record_command(argv, on)
    began = time.monotonic()
    outcome = "given up"
    try:
        done = await work
        outcome = f"exit {done.returncode}"
        return done
    except Exception as error:
        outcome = type(error).__name__
        raise
    finally:
        if _log.isEnabledFor(logging.DEBUG):
            took = time.monotonic() - began
            _log.debug("%s: %s -> %s, %.2f s", on, command_words(argv), outcome, took)


def program_of(argv: Sequence[str]) -> str:
    """The program behind env(1) and its settings."""
    words = iter(argv)
    for word in words:
        if word == "env" or "=" in word:
            continue
        if word == "-u":
            next(words, None)
            continue
        return word
    return argv[0]


def missing(program: str, where: str) -> CommandMissing:
    """The error for a program that is not on the PATH of `where`."""
    return CommandMissing(
        f"The command {program!r} was not found on {where}.",
        f"Check that it is installed and on the PATH of a non-interactive shell on {where}.",
    )


def unstartable(program: str, where: str, error: Exception) -> CommandError:
    """The error for a program that is there and cannot be started, or has an impossible name."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)):
        return missing(program, where)
    reason = error.strerror if isinstance(error, OSError) else str(error)
    hint = "Run it in a terminal to see why."
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        hint = "If it is a script, its first line has to name its interpreter, such as #!/bin/sh."
    return CommandError(
        f"The command {printable(program, 100)!r} cannot be started on {where}: {reason}.", hint
    )


def overdue(
    argv: Sequence[str], where: str, timeout: float, suspect: str = "The service behind it"
) -> CommandTimeout:
    """The error for a command that was stopped at its deadline; `suspect` may be why."""
    return CommandTimeout(
        f"{program_of(argv)!r} on {where} gave no answer within {timeout:g} s and was stopped.",
        f"{suspect} may be down or limiting requests; try again in a minute.",
    )


class LocalRunner:
    """Runs commands on this machine, each in a process group of its own."""

    where = "this machine"

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = environment

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` here; see Runner.run for the contract."""
        return await logged(argv, self.where, self._run(argv, stdin, timeout))

    async def _run(self, argv: Sequence[str], stdin: bytes | None, timeout: float) -> Completed:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise unstartable(argv[0], self.where, error) from error
        try:
            stdout, stderr = await within(_exchange(process, stdin), timeout)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise overdue(argv, self.where, timeout) from error
        except _TooMuch as error:
            raise CommandError(
                f"{program_of(argv)!r} printed more than {MAX_OUTPUT_BYTES >> 20} MiB "
                "and was stopped.",
                "Run it in a terminal to see what it prints.",
            ) from error
        finally:
            if process.returncode is None:
                await _end(process)
        return Completed(
            tuple(argv),
            process.returncode if process.returncode is not None else -1,
            stdout.decode("utf-8", "replace"),
            stderr.decode("utf-8", "replace"),
        )


class _TooMuch(Exception):
    """A command prints without an end."""


async def _exchange(
    process: asyncio.subprocess.Process, stdin: bytes | None
) -> tuple[bytes, bytes]:
    """What `communicate` does, with a bound on what is kept."""
    stdout, stderr, _ = await asyncio.gather(
        _bounded(process, process.stdout),
        _bounded(process, process.stderr),
        _feed(process, stdin),
    )
    await process.wait()
    return stdout, stderr


async def _bounded(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None
) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await stream.read(1 << 16) if stream else b"":
        size += len(piece)
        if size <= MAX_OUTPUT_BYTES:
            pieces.append(piece)
        elif size - len(piece) <= MAX_OUTPUT_BYTES:
            _kill(process)  # and read on: behind a full pipe its end would not be seen
    if size > MAX_OUTPUT_BYTES:
        raise _TooMuch
    return b"".join(pieces)


async def _feed(process: asyncio.subprocess.Process, data: bytes | None) -> None:
    if process.stdin is None:
        return
    closed = (BrokenPipeError, ConnectionResetError)
    try:
        process.stdin.write(data or b"")
        await process.stdin.drain()
        process.stdin.close()
    except closed:  # a command need not read what it is given
        # Up to 3.11.2 Python prints the error once more if nobody has asked for it.
        with contextlib.suppress(*closed):
            await process.stdin.wait_closed()


async def start_process(
    argv: Sequence[str], protocol: Callable[[], asyncio.SubprocessProtocol]
) -> asyncio.SubprocessTransport:
    """Start a long-lived command here whose stdin, stdout and stderr `protocol` handles.

    Whoever starts it ends it. Raises CommandMissing if the program does not exist, and
    CommandError if it cannot be started.
    """
    record_command(argv, LocalRunner.where)
    _log.debug("%s: %s -> started", LocalRunner.where, command_words(argv))
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.subprocess_exec(protocol, *argv, start_new_session=True)
    except (OSError, ValueError) as error:
        raise unstartable(argv[0], LocalRunner.where, error) from error
    return transport


async def run_at_terminal(argv: Sequence[str], terminal: str, timeout: float) -> int:
    """Run a program that talks to the person at `terminal` itself; returns its exit code.

    Raises CommandMissing, CommandError, or CommandTimeout if the person takes longer.
    """
    record_command(argv, LocalRunner.where)
    try:
        shown = None  # Windows: the console is inherited
        if sys.platform != "win32":
            shown = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=shown, stdout=shown, stderr=shown
            )
        finally:
            if shown is not None:
                os.close(shown)
    except (OSError, ValueError) as error:
        raise unstartable(argv[0], LocalRunner.where, error) from error
    try:
        return await within(process.wait(), timeout)
    except (TimeoutError, asyncio.TimeoutError):
        raise CommandTimeout(
            f"{printable(argv[0], 80)} did not end within {timeout:.0f} s and was stopped.",
            "Run it in a terminal of its own.",
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Background:
    """A program that may outlive this one and its terminal.

    It hears and answers in lines as long as somebody holds the pipes; its stderr goes
    to `log`. It has no controlling terminal, so closing ours does not end it.
    """

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        flags = 0
        if sys.platform == "win32":
            flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                start_new_session=True,
                creationflags=flags,
            )

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def send(self, line: str) -> None:
        """Say something; if it has ended, its last words are still to be read."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()

    def lines(self) -> Iterator[str]:
        """What it says, until it closes its end."""
        # Not `yield from`: an interrupted generator would close the pipe with itself.
        while line := self._process.stdout.readline() if self._process.stdout else "":
            yield line

    def wait(self, timeout: float) -> None:
        """Wait for its end; one that takes longer is left alone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def kill(self) -> None:
        """End it and its process group at once."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, 9)

    def hang_up(self) -> None:
        """Say nothing more; it decides for itself what that means."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process and wait a moment for its end."""
    _kill(process)
    with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
        await within(process.wait(), 5)


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process and, where the platform has groups, all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, 9)
