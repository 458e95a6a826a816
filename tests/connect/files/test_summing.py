"""The sum of what arrives, while the next block comes into the room of the one before the last."""

from __future__ import annotations

import hashlib
import io
import threading
import time

from jupyter_hpc.connect.files.frames import BLOCK_BYTES, DATA, Data, Wire
from jupyter_hpc.connect.files.summing import Summing


class Slow:
    """Reads its blocks late, as on a processor that is busy."""

    def __init__(self) -> None:
        self.seen = hashlib.sha256()

    def update(self, block: Data) -> None:
        time.sleep(0.02)  # sleep: the block is read late
        self.seen.update(block)

    def digest(self) -> bytes:
        return self.seen.digest()


def test_no_block_is_overwritten_before_it_is_summed() -> None:
    blocks = [bytes([number]) * (BLOCK_BYTES - number) for number in range(8)]
    stream = io.BytesIO()
    there = Wire(io.BytesIO(), stream)
    for block in blocks:
        there.send(DATA, block)
    there.flush()
    here = Wire(io.BytesIO(stream.getvalue()), io.BytesIO())
    before = threading.active_count()
    summing = Summing(Slow())
    for _ in blocks:
        kind, arrived = here.receive()
        assert kind == DATA
        summing.update(arrived)
    assert summing.digest() == hashlib.sha256(b"".join(blocks)).digest()
    summing.close()
    assert threading.active_count() == before


def test_a_sum_goes_on_from_what_was_there_and_can_be_given_up() -> None:
    summing = Summing(hashlib.sha256(b"first "))
    assert summing.digest() == hashlib.sha256(b"first ").digest()
    summing.update(b"second")
    assert summing.digest() == hashlib.sha256(b"first second").digest()
    summing.update(b"more")
    summing.close()
