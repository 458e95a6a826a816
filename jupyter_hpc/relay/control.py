"""The relay's own stream: it answers questions about itself and Jupyter.

Stdlib only, Python 3.9.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from jupyter_hpc.relay.frames import FORBIDDEN
from jupyter_hpc.relay.mux import Stream

CONTROL_TARGET = b"control:"


class Control:
    """The endpoint of a "control:" stream: each line is answered with the facts."""

    def __init__(self, stream: Stream, facts: Callable[[], dict[str, object]]) -> None:
        self._stream = stream
        self._facts = facts
        self._line_size = 0

    def on_data(self, data: bytes) -> None:
        self._stream.consumed(len(data))
        lines = data.count(b"\n")
        self._line_size = len(data) - data.rfind(b"\n") - 1 + (0 if lines else self._line_size)
        if self._line_size > 4096 or lines > 16 or self._stream.paused:
            self._stream.reset(FORBIDDEN)
            return
        for _ in range(lines):
            self._stream.send(json.dumps(self._facts()).encode("utf-8") + b"\n")

    def on_eof(self) -> None:
        self._stream.send_eof()

    def on_reset(self, code: int) -> None:
        pass

    def on_pause(self) -> None:
        pass

    def on_resume(self) -> None:
        pass


def is_alive(pid: int) -> bool:
    """Whether that process runs; one that ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[:1] not in (["Z"], ["X"])
    except FileNotFoundError:
        return False
    except OSError:
        return True
