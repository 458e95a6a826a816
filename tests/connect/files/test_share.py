"""A process that a session offers: to one visitor with the secret, and to nobody else."""

from __future__ import annotations

import asyncio

from jupyter_hpc.connect.files.share import Shared, visit
from jupyter_hpc.connect.ssh.receiving import Receiving
from tests.waiting import until


class Echo(Receiving):
    """A process that says what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self.deliver, data)

    def write_eof(self) -> None:
        self.end(None)

    def queued(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def terminate(self) -> None: ...

    def close(self) -> None:
        self.closed = True
        self.hang_up()


async def test_only_the_secret_opens_it_and_a_stranger_ends_nothing() -> None:
    process = Echo()
    offered = await Shared(process).offer()
    stranger_reads, stranger = await asyncio.open_connection("127.0.0.1", offered["port"])
    visitor = await visit(offered)
    heard: list[bytes] = []
    visitor.set_receiver(heard.append, lambda error: None)
    visitor.write(b"hello")
    await until(lambda: b"".join(heard) == b"hello")
    stranger.write(b"x" * 64)
    assert await stranger_reads.read() == b""
    visitor.write(b" again")
    await until(lambda: b"".join(heard) == b"hello again")
    assert not process.closed
    visitor.close()
    await until(lambda: process.closed)
