"""Frames through descriptors: what the kernel passes on is whole, whatever becomes of the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path

import pytest

from jupyter_hpc.connect.files.frames import (
    BLOCK_BYTES,
    DATA,
    READ_BYTES,
    VALUE,
    Broken,
    Descriptor,
    Wire,
)


@pytest.fixture
def ends() -> Iterator[tuple[Wire, Wire]]:
    """Where frames go in, and where they come out."""
    reading, writing = os.pipe()
    reader = BufferedReader(FileIO(reading), READ_BYTES)
    yield Wire(reader, Descriptor(writing)), Wire(reader, Descriptor(writing))
    reader.close()
    os.close(writing)


@pytest.mark.parametrize("left", [BLOCK_BYTES, 300_000, 0])
def test_a_frame_is_whole_though_the_file_is_cut_short(
    ends: tuple[Wire, Wire], tmp_path: Path, left: int
) -> None:
    sender, receiver = ends
    data = os.urandom(BLOCK_BYTES)
    (tmp_path / "file").write_bytes(data)
    got: list[bytes] = []

    def receive() -> None:
        kind, payload = receiver.receive()
        assert kind == DATA
        got.append(bytes(payload))
        assert receiver.receive_value() == "next"

    with (tmp_path / "file").open("rb", buffering=0) as file:
        assert file.readinto(sender.room()) == BLOCK_BYTES
        os.truncate(tmp_path / "file", left)
        listening = threading.Thread(target=receive)
        listening.start()
        sender.send_room(BLOCK_BYTES, file.fileno())
        sender.send_value("next")
        listening.join()
    assert got == [data]


def test_small_frames_leave_before_a_block(ends: tuple[Wire, Wire], tmp_path: Path) -> None:
    sender, receiver = ends
    (tmp_path / "file").write_bytes(b"block")
    sender.send(VALUE, b'"first"')
    with (tmp_path / "file").open("rb", buffering=0) as file:
        size = file.readinto(sender.room())
        assert size == 5
        sender.send_room(size, file.fileno())
    assert receiver.receive_value() == "first"
    kind, payload = receiver.receive()
    assert (kind, bytes(payload)) == (DATA, b"block")


def test_a_reader_that_is_gone_is_said() -> None:
    reading, writing = os.pipe()
    reader = BufferedReader(FileIO(reading))
    wire = Wire(reader, Descriptor(writing))
    reader.close()
    with pytest.raises(Broken):
        wire.send_value("x")
    os.close(writing)
