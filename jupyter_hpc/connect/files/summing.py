"""The sum of a file that arrives, beside its arriving: one block while the next one comes."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, Optional

from jupyter_hpc.connect.files.frames import Data


class Summing:
    """SHA-256 in a thread of its own, during which Python lets the others run.

    A block that was given stays the caller's to keep until the next one has been taken.
    """

    def __init__(self, digest: Any) -> None:
        """Goes on from `digest`."""
        self._digest = digest
        # In the words of Python 3.9.
        self._blocks: SimpleQueue[Optional[Data]] = SimpleQueue()  # noqa: UP045
        self._done: SimpleQueue[None] = SimpleQueue()
        self._is_waiting = False
        self._thread = threading.Thread(target=self._sum, daemon=True)
        self._thread.start()

    def _sum(self) -> None:
        while True:
            block = self._blocks.get()
            if block is None:
                return
            self._digest.update(block)
            self._done.put(None)

    def update(self, block: Data) -> None:
        """Take a block; the one before it is no longer needed."""
        self._settle()
        self._is_waiting = True
        self._blocks.put(block)

    def _settle(self) -> None:
        if self._is_waiting:
            self._done.get()
            self._is_waiting = False

    def digest(self) -> bytes:
        """The sum of all blocks."""
        self._settle()
        return bytes(self._digest.digest())

    def close(self) -> None:
        """The thread ends; no block is in use any more."""
        self._blocks.put(None)
        self._thread.join()
