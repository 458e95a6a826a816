"""What carries a link: any two-way pipe of bytes to the relay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class BytePipe(Protocol):
    """A two-way byte pipe to the relay, after RELAY_READY; made by connect/tunnel/transports.py."""

    def set_receiver(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[Exception | None], None],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        """Who gets the bytes. Bytes that came before are delivered then, none is lost.

        on_closed comes once, unless close() was called here. on_drained says that queued()
        has become small after it was large (the transport's resume_writing).
        """

    def write(self, data: bytes) -> None:
        """Send all of it, in order, as soon as possible; never blocks, never fails here."""

    def queued(self) -> int:
        """Bytes that were written and that the transport has not taken yet."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """End the pipe at once; nothing is delivered after that."""
