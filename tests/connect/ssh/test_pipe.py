"""What a host sends before anybody listens to it."""

from __future__ import annotations

from jupyter_hpc.connect.ssh import pipe as ssh_pipe
from jupyter_hpc.connect.ssh.pipe import Receiving


class Counted(Receiving):
    """Counts how often the other end was held up."""

    paused = False

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
        assert sent <= ssh_pipe.MAX_EARLY_BYTES + len(block)
    assert await pipe.skip_past(b"ready") is None
    got = bytearray()
    pipe.set_receiver(got.extend, lambda outcome: None)
    assert not pipe.paused and len(got) == sent


async def test_what_follows_the_marker_counts_anew() -> None:
    pipe = Counted()
    pipe.deliver(bytes(900_000) + b"ready" + b"after")
    assert await pipe.skip_past(b"ready") == bytes(900_000)
    pipe.deliver(bytes(ssh_pipe.MAX_EARLY_BYTES - 5))
    assert not pipe.paused
    pipe.deliver(b"x")
    assert pipe.paused
