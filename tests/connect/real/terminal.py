"""A person at a terminal: a program on a pseudo-terminal, what it shows and what is typed."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType


class Terminal:
    """Runs a program as the only one on its terminal."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            list(argv),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"},
            start_new_session=True,
            preexec_fn=lambda: _take_terminal(),
        )
        os.close(theirs)
        self.shown = ""
        self._read_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        if self._ours >= 0:
            os.close(self._ours)

    def expect(self, pattern: str, timeout: float = 60) -> str:
        """Wait until the text after the last match shows `pattern`; returns the match."""
        deadline = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.shown[self._read_to :])
            if found:
                self._read_to += found.end()
                return found.group(0)
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(min(left, 0.5)):
                raise AssertionError(f"{pattern!r} was not shown; the terminal has:\n{self.shown}")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def control_c(self) -> None:
        os.write(self._ours, b"\x03")

    def hang_up(self) -> None:
        """Close the terminal, as its window does; nothing can be read or typed from then on."""
        os.close(self._ours)
        self._ours = -1

    def wait(self, timeout: float = 60) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.1)
        while self._read(0.05) and time.monotonic() < deadline:
            if self.process.poll() is not None and not self._ready():
                break
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _ready(self) -> bool:
        return bool(select.select([self._ours], [], [], 0)[0])

    def _read(self, timeout: float) -> bool:
        """Take in what is shown; False when the terminal is closed."""
        if not select.select([self._ours], [], [], timeout)[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


def _take_terminal() -> None:
    """Make the pseudo-terminal the controlling one, so that Ctrl-C is a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
