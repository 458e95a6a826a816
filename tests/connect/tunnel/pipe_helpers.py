"""A stand-in for the relay's attach command, and a check of the bytes."""

from __future__ import annotations

import asyncio
import os

from jupyter_hpc.connect.ssh.interfaces import BytePipe

#: Says that it is ready and then gives every byte back.
ECHO_RELAY = ("sh", "-c", r"printf '\001jupyter-hpc-relay\002'; exec cat")


async def echoes(pipe: BytePipe, size: int) -> bool:
    """Send `size` random bytes and compare what comes back; closes the pipe."""
    data, back = os.urandom(size), bytearray()
    done, drained = asyncio.Event(), asyncio.Event()

    def on_data(piece: bytes) -> None:
        back.extend(piece)
        if len(back) >= size:
            done.set()

    pipe.set_receiver(on_data, lambda error: done.set(), drained.set)
    for start in range(0, size, 250_000):
        pipe.write(data[start : start + 250_000])
        # As the stream does: stop at half a megabyte, and go on when told.
        if pipe.queued() >= 1 << 19:
            drained.clear()
            await asyncio.wait_for(drained.wait(), 60)
    await asyncio.wait_for(done.wait(), 60)
    pipe.close()
    return bytes(back) == data
