"""One question on a stream of its own, and its answer."""

from __future__ import annotations

import asyncio

from jupyter_hpc.relay.mux import Stream

#: A longer answer is not one that we asked for; what came of it until then is given back.
MAX_ANSWER_BYTES = 4 << 20


class OneShot:
    """The local end of a stream that asks once: `answer` is what came until `mark`, or until the
    other end closed.

        asked = OneShot(mark=b"\\n")
        asked.stream = link.open(target, asked)
        asked.stream.send(question)
        await asked.answer
    """

    def __init__(self, mark: bytes = b"") -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.stream: Stream | None = None
        self._mark = mark
        self._data = b""

    def on_data(self, data: bytes) -> None:
        if self.stream is not None:
            self.stream.consumed(len(data))
        self._data += data
        if len(self._data) > MAX_ANSWER_BYTES or (self._mark and self._mark in self._data):
            self.on_eof()

    def on_eof(self) -> None:
        if not self.answer.done():
            self.answer.set_result(self._data)

    def on_reset(self, code: int) -> None:
        self.on_eof()

    def on_pause(self) -> None:
        """A question is far smaller than any window."""

    def on_resume(self) -> None:
        """See on_pause."""
