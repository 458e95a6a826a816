"""What a host sends before anybody listens to it."""

from __future__ import annotations

import asyncio

from jupyter_hpc.connect.ssh import receiving
from jupyter_hpc.connect.ssh.receiving import Receiving


class Counted(Receiving):
    """Counts how often the other end was held up."""

    paused = False

    def write(self, data: bytes) -> None: ...

    def write_eof(self) -> None: ...

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


async def test_a_host_that_floods_before_it_is_heard_is_held_up() -> None:
    """An attach that says everything but that it is ready took half a gigabyte in two seconds."""
    pipe, block, sent = Counted(), bytes(50_000), 0
    while not pipe.paused:
        pipe.deliver(block)
        sent += len(block)
        assert sent <= receiving.MAX_EARLY_BYTES + len(block)
    got = bytearray()
    pipe.set_receiver(got.extend, lambda outcome: None)
    assert not pipe.paused and len(got) == sent


async def test_a_login_shell_that_prints_megabytes_is_no_obstacle() -> None:
    """It looked like a host that forbids SSH."""
    pipe = Counted()
    kept: list[bytes] = []
    skipping = asyncio.create_task(pipe.skip_past(b"ready"))
    for _ in range(100):
        pipe.deliver(bytes(99_999) + b"rea")
        await asyncio.sleep(0)
        assert not pipe.paused
    pipe.deliver(b"dy" + b"after")
    assert await skipping
    pipe.set_receiver(kept.append, lambda outcome: None)
    assert b"".join(kept) == b"after"


async def test_what_prints_without_end_is_not_listened_to_for_ever() -> None:
    pipe = Counted()
    skipping = asyncio.create_task(pipe.skip_past(b"ready", limit=1_000_000))
    for _ in range(11):
        pipe.deliver(bytes(100_000))
        await asyncio.sleep(0)
    assert await skipping is False


async def test_what_follows_the_marker_counts_anew() -> None:
    pipe = Counted()
    pipe.deliver(bytes(900_000) + b"ready" + b"after")
    assert await pipe.skip_past(b"ready")
    pipe.deliver(bytes(receiving.MAX_EARLY_BYTES - 5))
    assert not pipe.paused
    pipe.deliver(b"x")
    assert pipe.paused
