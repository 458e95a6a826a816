"""A host that only speaks SFTP: parts, links, sums, and a server that lies."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import pytest

from jupyter_hpc.connect.files import frames, sftp
from jupyter_hpc.connect.files.frames import Broken, Refused, Wire
from jupyter_hpc.connect.files.listing import Entry, Source
from jupyter_hpc.connect.files.receiver import Receiver
from jupyter_hpc.connect.files.sftp import SftpClient
from jupyter_hpc.connect.files.sftp_receiver import Checksum, SftpReceiver
from jupyter_hpc.connect.files.transfer import Options, look, pull, push
from jupyter_hpc.connect.files.tree import Tree, part_name
from tests.connect.files.sftp_host import no_sums, sftp_client, sftp_end, sums
from tests.connect.files.test_transfer import Heard

BIG = os.urandom(3_000_000)


class Counts(Heard):
    """What was sent in blocks, and not told in one step because it was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def moved(self, entry: Entry, size: int) -> None:
        self.sent += size if size <= frames.BLOCK_BYTES else 0


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(BIG)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def far_part(path: Path, root: Path) -> Path:
    """Where a file grows over SFTP."""
    found = path.stat()
    entry = Entry(path.name, "f", found.st_size, found.st_mtime_ns, 0o644, "")
    with sftp_client() as client:
        receiver = SftpReceiver(client, str(root), [entry], 0, no_sums)
        return Path(receiver._part(entry))


@pytest.mark.parametrize("checksum", [sums, no_sums])
def test_a_part_of_this_very_file_is_gone_on_with(
    tmp_path: Path, big: Path, checksum: Checksum
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    part = far_part(big, there)
    part.write_bytes(BIG[:2_000_000])
    part.chmod(0o600)
    counted = Counts()
    with sftp_end(checksum) as wire:
        done = push(wire, [Source(str(big), "big")], str(there), Options(), counted)
    assert done.left == [] and (there / "big").read_bytes() == BIG
    assert counted.sent == 1_000_000 and [path.name for path in there.iterdir()] == ["big"]


def test_a_part_of_another_state_or_of_others_is_not(tmp_path: Path, big: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    part = far_part(big, there)
    for trick in ("changed", "sum", "writable", "folder", "link"):
        os.utime(big, (1_700_000_000, 1_700_000_000))
        victim = tmp_path / f"victim-{trick}"
        victim.write_bytes(b"x" * 2_000_000)
        (there / "big").unlink(missing_ok=True)
        if trick == "link":
            part.symlink_to(victim)
        else:
            part.write_bytes(b"x" * 2_000_000)
            part.chmod(0o666 if trick == "writable" else 0o600)
        there.chmod(0o777 if trick == "folder" else 0o755)
        if trick == "changed":
            os.utime(big, (1_700_000_001, 1_700_000_001))
        counted = Counts()
        with sftp_end(sums if trick == "sum" else no_sums) as wire:
            done = push(wire, [Source(str(big), "big")], str(there), Options(), counted)
        assert done.left == [], trick
        assert (there / "big").read_bytes() == BIG and counted.sent == 3_000_000, trick
        assert [path.name for path in there.iterdir()] == ["big"], trick
        assert victim.read_bytes() == b"x" * 2_000_000


@pytest.mark.parametrize("known", [True, False])
def test_a_pull_goes_on_where_a_cut_has_left_the_part(
    tmp_path: Path, big: Path, known: bool
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    part = here / part_name("big")
    part.write_bytes(BIG[:2_000_000])
    part.chmod(0o600)
    if known:  # as a transfer that was cut has left it
        os.utime(part, (1_700_000_000, 1_700_000_000))
    counted = Counts()
    with sftp_end() as wire:
        done = pull(wire, [(str(big), "big")], str(here), Options(contents=True), counted)
    assert done.left == [] and (here / "big").read_bytes() == BIG
    assert counted.sent == (1_000_000 if known else 3_000_000)


def test_a_cut_gives_the_part_the_time_by_which_it_is_known(tmp_path: Path) -> None:
    entry = Entry("big", "f", len(BIG), 1_700_000_000 * 10**9, 0o644, "")
    out = io.BytesIO()
    sent = Wire(io.BytesIO(), out)
    sent.send(frames.BEGIN, frames.OFFSET.pack(0, 0))
    sent.send(frames.DATA, BIG[:100_000])
    sent.flush()
    receiver = Receiver(Tree(str(tmp_path)), [entry], 0)
    receiver.wanted(checksum=False)
    with pytest.raises(Broken):
        receiver.receive(Wire(io.BytesIO(out.getvalue()), io.BytesIO()))
    assert (tmp_path / part_name("big")).stat().st_mtime == 1_700_000_000


def test_patterns_and_homes_need_no_command_and_what_cannot_be_compared_is_copied(
    tmp_path: Path, big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one.csv", "two.csv", ".hidden.csv", "three.txt"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)  # where an SFTP server begins
    with sftp_end() as wire:
        assert look(wire, "~/big") == (str(big), "f") and look(wire, ".")[1] == "d"
        here = str(tmp_path / "here")
        pull(wire, [("*.csv", None)], here, Options(), Heard())
        assert sorted(os.listdir(here)) == ["one.csv", "two.csv"]
        again = pull(wire, [("one.csv", None)], here, Options(checksum=True), Heard())
        assert [entry.path for entry in again.moved] == ["one.csv"]
        with pytest.raises(Refused, match="no home folders of others"):
            look(wire, "~mallory/x")


def packet(kind: int, body: bytes) -> bytes:
    return struct.pack("!IB", len(body) + 1, kind) + body


HELLO = packet(sftp.VERSION, struct.pack("!I", 3))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"This service allows sftp connections only.\r\n",
        packet(sftp.STATUS, struct.pack("!I", 0)),
        HELLO + struct.pack("!IB", 1 << 30, sftp.ATTRS),
        HELLO + packet(sftp.ATTRS, struct.pack("!I", 77)),
        HELLO + packet(sftp.ATTRS, struct.pack("!II", 1, 0x4)),
        HELLO + packet(sftp.STATUS, struct.pack("!II", 1, 0)),
        HELLO + packet(sftp.ANSWER_DATA, struct.pack("!II", 1, 5) + b"x"),
    ],
)
def test_a_server_that_lies_is_left(said: bytes) -> None:
    with pytest.raises(Broken):
        SftpClient(io.BytesIO(said), io.BytesIO()).attributes("/x")


def test_no_more_is_taken_than_was_asked_for() -> None:
    said = HELLO + packet(sftp.ANSWER_DATA, struct.pack("!II", 1, 40_000) + bytes(40_000))
    client = SftpClient(io.BytesIO(said), io.BytesIO())
    with pytest.raises(Broken, match="more came"):
        list(client.read(b"handle", 0, 30_000, "/x"))


def test_many_small_files_and_an_empty_one(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(300):
        (source / f"file-{number}").write_bytes(os.urandom(number * 250))
    with sftp_end() as wire:
        sent = push(wire, [Source(str(source), "s")], str(tmp_path / "there"), Options(), Heard())
        back = pull(wire, [(str(tmp_path / "there/s"), None)], str(tmp_path), Options(), Heard())
    assert sent.left == back.left == []
    for path in source.iterdir():
        assert (tmp_path / "s" / path.name).read_bytes() == path.read_bytes()
