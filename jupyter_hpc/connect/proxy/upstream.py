"""What the proxy needs of whatever carries its bytes to the node.

`connect/tunnel/link.py` has it; the proxy does not know that module, nor any other way there.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from jupyter_hpc.relay.mux import Endpoint, Stream


@runtime_checkable
class Upstream(Protocol):
    """Opens streams to Jupyter and to services of the user on the node."""

    @property
    def state(self) -> Literal["down", "suspect", "up"]:
        """down: nothing is carried; suspect: carried, but nothing came for a while; up."""
        ...

    def can_open(self) -> bool:
        """Whether one more stream is within the limits."""
        ...

    def open(self, target: str, endpoint: Endpoint) -> Stream:
        """A new stream: "" leads to Jupyter, "tcp:127.0.0.1:PORT" and "unix:/PATH" to services.

        Not answered: what is sent before it can be carried waits.
        """
        ...

    async def wait_up(self, timeout: float | None = None) -> bool:
        """Wait until the state is up; False if it is not after `timeout` seconds."""
        ...
