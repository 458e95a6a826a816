"""Push and pull against the shipped program: names, links, parts, hostile ends, what fails."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.connect.files import frames
from jupyter_hpc.connect.files.frames import Broken, Refused, Wire
from jupyter_hpc.connect.files.listing import Entry, Source
from jupyter_hpc.connect.files.transfer import Options, Plan, Watcher, look, pull, push
from jupyter_hpc.connect.files.tree import leads_inside, part_name
from jupyter_hpc.errors import UsageError
from tests.connect.files.far_end import far_end
from tests.connect.files.sftp_host import sftp_end, sums

NASTY = ["-rf", "new\nline", "größe 日本", " blank ", "quote'\"$(x)", ".hidden", "back\\slash"]

BIG = os.urandom(3_000_000)


class Heard(Watcher):
    """Remembers what it was told."""

    def __init__(self, delete: bool = False) -> None:
        self.plans: list[Plan] = []
        self.size = 0
        self._delete = delete

    def planned(self, plan: Plan) -> bool:
        self.plans.append(plan)
        return self._delete

    def moved(self, entry: Entry, size: int) -> None:
        self.size += size


@pytest.fixture(params=["python", "sftp"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    """The far end: the program that is sent along, and a host that only speaks SFTP."""
    with far_end() if request.param == "python" else sftp_end(sums) as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name in NASTY:
        (folder / name).write_text(name)
    (folder / os.fsdecode(b"latin\xe9")).write_text("not UTF-8")
    (folder / "deep/er/big").write_bytes(BIG)
    (folder / "deep/run").write_text("#!/bin/sh\n")
    (folder / "deep/run").chmod(0o755)
    (folder / "deep/inside").symlink_to("../-rf")
    (folder / "nothing").write_bytes(b"")
    os.utime(folder / "-rf", (1_000_000_000, 1_000_000_000))
    return folder


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = path.read_bytes()
    return found


def test_a_folder_goes_there_and_comes_back(wire: Wire, source: Path, tmp_path: Path) -> None:
    heard = Heard()
    sent = push(wire, [Source(str(source), "s")], str(tmp_path / "there"), Options(), heard)
    assert sent.left == [] and content(tmp_path / "there/s") == content(source)
    assert (
        heard.size
        == heard.plans[0].size
        == sum(len(c) for c in content(source).values() if (isinstance(c, bytes)))
    )
    assert stat.S_IMODE((tmp_path / "there/s/deep/run").stat().st_mode) & 0o700 == 0o700
    assert (tmp_path / "there/s/-rf").stat().st_mtime == 1_000_000_000
    back = pull(wire, [(str(tmp_path / "there/s"), None)], str(tmp_path / "b"), Options(), heard)
    assert back.left == [] and content(tmp_path / "b/s") == content(source)
    again = push(wire, [Source(str(source), "s")], str(tmp_path / "there"), Options(), heard)
    assert again.moved == [] and again.same == len(NASTY) + 5


def test_a_part_is_gone_on_with_only_if_it_is_the_beginning(source: Path, tmp_path: Path) -> None:
    with far_end() as wire:
        _parts_of_the_file(wire, source, tmp_path)


def _parts_of_the_file(wire: Wire, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.mkdir()
    part = target / part_name("big")
    for kept, moved in ((BIG[:2_000_000], 1_000_000), (b"x" * 2_000_000, 3_000_000)):
        part.write_bytes(kept)
        part.chmod(0o600)
        (target / "big").unlink(missing_ok=True)
        sent: list[int] = []

        class Counts(Heard):
            def moved(self, entry: Entry, size: int, sent: list[int] = sent) -> None:
                sent.append(size)

        done = push(
            wire, [Source(str(source / "deep/er/big"), "big")], str(target), Options(), Counts()
        )
        assert done.left == [] and (target / "big").read_bytes() == BIG and not part.exists()
        # What was there is told in one step, everything else in blocks.
        assert sum(size for size in sent if size <= frames.BLOCK_BYTES) == moved


@pytest.mark.parametrize("trick", ["link", "writable", "hard link"])
def test_a_part_that_others_could_have_made_is_not_used(
    wire: Wire, source: Path, tmp_path: Path, trick: str
) -> None:
    target, victim = tmp_path / "there", tmp_path / "victim"
    target.mkdir()
    victim.write_bytes(BIG[:100_000])
    victim.chmod(0o600)
    part = target / part_name("big")
    if trick == "link":
        part.symlink_to(victim)
    elif trick == "hard link":
        os.link(victim, part)
    else:
        part.write_bytes(BIG[:100_000])
        part.chmod(0o666)
    done = push(wire, [Source(str(source / "deep/er/big"), "big")], str(target), Options(), Heard())
    assert done.left == [] and (target / "big").read_bytes() == BIG
    assert victim.read_bytes() == BIG[:100_000] and not (target / "big").is_symlink()
    assert stat.S_IMODE((target / "big").stat().st_mode) & 0o022 == 0


def test_no_link_in_the_target_is_followed(wire: Wire, source: Path, tmp_path: Path) -> None:
    target, outside = tmp_path / "there", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "deep").symlink_to(outside)
    (target / "-rf").symlink_to(outside / "file")
    done = push(wire, [Source(str(source), "")], str(target), Options(contents=True), Heard())
    assert list(outside.iterdir()) == []
    assert {path for path, _ in done.left} >= {"deep/run", "deep/er/big"}
    assert all("link" in why for _, why in done.left)
    assert (target / "-rf").read_text() == "-rf" and not (target / "-rf").is_symlink()


def test_bad_ones_are_listed_and_the_others_go_on(wire: Wire, source: Path, tmp_path: Path) -> None:
    (source / "out").symlink_to("/etc/passwd")
    (source / "up").symlink_to("deep/../../x")
    os.mkfifo(source / "pipe")
    target = tmp_path / "there"
    (target / "nothing/full").mkdir(parents=True)
    done = push(wire, [Source(str(source), "")], str(target), Options(contents=True), Heard())
    why = dict(done.left)
    assert set(why) == {"out", "up", "pipe", "nothing"}
    assert "leads out" in why["out"] and "neither" in why["pipe"]
    assert why["nothing"] == "a folder of this name is there"
    assert (target / "deep/er/big").read_bytes() == BIG


def test_sync_deletes_only_when_told_and_a_dry_run_changes_nothing(
    wire: Wire, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    (target / "old/er").mkdir(parents=True)
    (target / "old/er/file").write_text("x")
    sync = [Source(str(source), "")]
    heard = Heard(delete=True)
    dry = push(wire, sync, str(target), Options(contents=True, delete=True, dry=True), heard)
    assert heard.plans[0].extras == ("old/er/file", "old/er", "old")
    assert dry.deleted == [] and {entry.path for entry in dry.moved} >= {"-rf", "deep/er/big"}
    assert content(target) == {"old": None, "old/er": None, "old/er/file": b"x"}
    kept = push(wire, sync, str(target), Options(contents=True, delete=True), Heard())
    assert kept.deleted == [] and (target / "old/er/file").exists()
    done = push(wire, sync, str(target), Options(contents=True, delete=True), heard)
    assert len(done.deleted) == 3 and content(target) == content(source)
    (target / "-rf").write_text("fr-")
    os.utime(target / "-rf", (1_000_000_000, 1_000_000_000))
    assert push(wire, sync, str(target), Options(contents=True), heard).moved == []
    options = Options(contents=True, checksum=True)
    assert [e.path for e in push(wire, sync, str(target), options, heard).moved] == ["-rf"]


def test_what_cannot_be_written_is_said(wire: Wire, source: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="SCRATCH_OF_NOBODY"):
        look(wire, "$SCRATCH_OF_NOBODY/x")
    assert look(wire, str(source))[1] == "d"
    done = pull(wire, [("/nowhere/at/all", None)], str(tmp_path / "x"), Options(), Heard())
    assert done.left == [("/nowhere/at/all", "there is no such file or folder")]


class Played:
    """A far end that says what a test wrote for it."""

    def __init__(self, *parts: tuple[bytes, bytes]) -> None:
        out = io.BytesIO()
        wire = Wire(io.BytesIO(), out)
        for kind, payload in parts:
            wire.send(kind, payload)
        wire.flush()
        self.wire = Wire(io.BytesIO(out.getvalue()), io.BytesIO())


def value(data: object) -> tuple[bytes, bytes]:
    out = io.BytesIO()
    Wire(io.BytesIO(), out).send_value(data)
    return frames.VALUE, out.getvalue()[5:]


def hostile(entries: Sequence[Sequence[object]], *parts: tuple[bytes, bytes]) -> Wire:
    return Played(value({"entries": entries, "left": []}), *parts).wire


def small(index: int, data: bytes) -> tuple[bytes, bytes]:
    import hashlib

    return frames.SMALL, frames.INDEX.pack(index) + hashlib.sha256(data).digest() + data


@pytest.mark.parametrize(
    "path", ["../evil", "/tmp/evil", "a/../../evil", "", ".", "a//b", "nul\0", part_name("x")]
)
def test_a_hostile_name_is_refused_and_nothing_is_written(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    entries = [[path, "f", 4, 0, 0o644, ""], ["good", "f", 4, 0, 0o644, ""]]
    played = hostile(entries, small(1, b"good"), (frames.LAST, b""))
    done = pull(played, [("x", None)], str(root), Options(), Heard())
    assert [name for name, _ in done.left] == [path]
    assert content(tmp_path) == {"root": None, "root/good": b"good"}


@pytest.mark.parametrize(
    "parts",
    [
        [small(0, b"good!")],  # more than announced
        [small(7, b"good")],  # never announced
        [(frames.BEGIN, frames.OFFSET.pack(0, 0)), (frames.DATA, b"x" * 100)],
        [(frames.BEGIN, frames.OFFSET.pack(0, 0)), (frames.DATA, b"x" * (frames.BLOCK_BYTES + 1))],
        [(frames.BEGIN, frames.OFFSET.pack(0, 100))],
        [(b"?", frames.INDEX.pack(0))],
    ],
)
def test_a_far_end_that_lies_writes_nothing(
    tmp_path: Path, parts: list[tuple[bytes, bytes]]
) -> None:
    played = hostile([["good", "f", 4, 0, 0o644, ""]], *parts, (frames.LAST, b""))
    try:
        done = pull(played, [("x", None)], str(tmp_path / "root"), Options(), Heard())
    except Broken:
        pass
    else:
        assert done.left and not done.moved
    assert not (tmp_path / "root/good").exists()


@pytest.mark.parametrize(
    "entry",
    [
        ["good", "f", 5, 0, 0o644, ""],  # larger
        ["other", "f", 4, 0, 0o644, ""],  # never asked for
        ["good", "d", 0, 0, 0o755, ""],
        ["good", "l", 0, 0, 0, "fine"],
    ],
)
def test_no_more_is_taken_than_was_announced(tmp_path: Path, entry: list[object]) -> None:
    fine, twice = ["fine", "f", 4, 0, 0o644, ""], ["fine", "f", 4, 1, 0o644, ""]
    asked = [("/run/good", "good"), ("/run/fine", "fine")]
    root, fewer = tmp_path / "root", (small(1, b"fine"), (frames.LAST, b""))
    played = hostile([entry, fine, twice], *fewer)
    done = pull(played, asked, str(root), Options(contents=True), Heard(), [4, 4])
    assert done.left == [(entry[0], "it is more than was announced"), ("fine", done.left[0][1])]
    assert content(root) == {"fine": b"fine"}
    played = hostile([entry, fine], small(0, b"evil!"), *fewer)
    with pytest.raises(Broken):
        pull(played, asked, str(root), Options(contents=True), Heard(), [4, 4])
    assert content(root) == {"fine": b"fine"}


def test_of_a_file_that_grew_only_what_was_announced_comes(
    wire: Wire, source: Path, tmp_path: Path
) -> None:
    asked = [(str(source / "-rf"), "a"), (str(source / "deep/er/big"), "b/c")]
    done = pull(
        wire, asked, str(tmp_path / "x"), Options(contents=True, checksum=True), Heard(),
        [2, 2_000_000],
    )  # fmt: skip
    assert done.left == []
    assert content(tmp_path / "x") == {"a": b"-r", "b": None, "b/c": BIG[:2_000_000]}


def test_a_link_of_a_hostile_end_is_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    entries = [
        ["a", "l", 0, 0, 0, str(outside)],
        ["b", "l", 0, 0, 0, "sub"],
        ["b/file", "f", 4, 0, 0o644, ""],
    ]
    link, end = (frames.SMALL, frames.INDEX.pack(1)), (frames.LAST, b"")
    played = hostile(entries, link, small(2, b"evil"), end)
    done = pull(played, [("x", None)], str(tmp_path / "root"), Options(), Heard())
    assert {path for path, _ in done.left} == {"a", "b/file"}
    assert list(outside.iterdir()) == [] and content(tmp_path / "root") == {"b": "sub"}


def test_too_much_for_the_disk_is_said_before_anything_is_written(tmp_path: Path) -> None:
    played = hostile([["huge", "f", 1 << 60, 0, 0o644, ""]])
    with pytest.raises(UsageError, match="no room here"):
        pull(played, [("x", None)], str(tmp_path / "root"), Options(), Heard())
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("path", "link", "depth", "inside"),
    [
        ("a/b", "c", 0, True),
        ("a/b", "../c", 0, True),
        ("a/b", "../c", 1, False),
        ("a/b/c", "../x", 1, True),
        ("a/b", "../../c", 0, False),
        ("a/b", "/c", 0, False),
        ("a/b", "c/../../..", 0, False),
        ("a", "..", 0, False),
        ("a", "", 0, False),
    ],
)
def test_where_a_link_may_lead(path: str, link: str, depth: int, inside: bool) -> None:
    assert leads_inside(path, link, depth) is inside


def test_no_file_of_a_hostile_end_runs_as_somebody_else(tmp_path: Path) -> None:
    played = hostile([["tool", "f", 4, 0, 0o6777, ""]], small(0, b"evil"), (frames.LAST, b""))
    pull(played, [("x", None)], str(tmp_path), Options(), Heard())
    assert (tmp_path / "tool").stat().st_mode & 0o7000 == 0


def test_what_could_not_be_read_is_not_taken_for_gone(
    wire: Wire, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "there"
    sync = [Source(str(source), "")]
    push(wire, sync, str(target), Options(contents=True), Heard())
    before = content(target)
    (target / "old").write_text("x")
    listed, refused = os.scandir, str(source / "deep")

    def scandir(path: Any = ".") -> Any:
        if str(path) == refused:
            raise PermissionError(13, "Permission denied", refused)
        return listed(path)

    monkeypatch.setattr("jupyter_hpc.connect.files.listing.os.scandir", scandir)
    done = push(wire, sync, str(target), Options(contents=True, delete=True), Heard(delete=True))
    assert done.deleted == ["old"] and content(target) == before
    assert done.left == [("deep", "permission denied")]
    refused = str(source)
    (target / "old").write_text("x")
    push(wire, sync, str(target), Options(contents=True, delete=True), Heard(delete=True))
    assert content(target) == {**before, "old": b"x"}


def test_names_that_are_one_here_do_not_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [[name, "f", 4, 0, 0o644, ""] for name in ("data/A", "data/a", "data/b")]
    parts = (small(0, b"good"), small(2, b"fine"), (frames.LAST, b""))
    with monkeypatch.context() as patch:
        patch.setattr("jupyter_hpc.connect.files.tree.Tree.folds_case", lambda self: True)
        done = pull(hostile(entries, *parts), [("x", None)], str(tmp_path), Options(), Heard())
    assert done.left == [("data/a", "'data/A' is the same name here")]
    assert content(tmp_path) == {"data": None, "data/A": b"good", "data/b": b"fine"}
    three = (small(0, b"good"), small(1, b"both"), small(2, b"fine"), (frames.LAST, b""))
    done = pull(hostile(entries, *three), [("x", None)], str(tmp_path), Options(), Heard())
    assert done.left == [] and (tmp_path / "data/a").read_bytes() == b"both"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_fills_up_takes_the_part_away_and_goes_on(
    wire: Wire, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_hpc.connect.files import receiver

    write = receiver._write

    def full(fd: int, data: bytes) -> None:
        if os.fstat(fd).st_size > 1_000_000:
            raise OSError(28, "No space left on device")
        write(fd, data)

    monkeypatch.setattr(receiver, "_write", full)
    here = tmp_path / "here"
    done = pull(wire, [(str(source), None)], str(here), Options(), Heard())
    assert done.left == [("source/deep/er/big", "the disk is full there")]
    expected = content(source)
    del expected["deep/er/big"]
    assert content(here / "source") == expected


@pytest.mark.parametrize("change", ["grows", "shrinks", "other", "vanishes"])
def test_a_file_that_changes_while_it_is_copied(
    wire: Wire, source: Path, tmp_path: Path, change: str
) -> None:
    big = source / "deep/er/big"

    class Meddles(Heard):
        def planned(self, plan: Plan) -> bool:
            if change == "vanishes":
                big.unlink()
            return super().planned(plan)

        def moved(self, entry: Entry, size: int) -> None:
            if entry.path.endswith("big") and self.size < 1_000_000 <= self.size + size:
                if change == "grows":
                    with big.open("ab") as file:
                        file.write(b"more" * 1000)
                elif change == "shrinks":
                    os.truncate(big, 1_200_000)
                else:
                    with big.open("r+b") as file:
                        file.write(b"other")
                    os.utime(big, (1_000_000_000, 1_000_000_000))
            super().moved(entry, size)

    there = tmp_path / "there"
    done = push(wire, [Source(str(source), "")], str(there), Options(contents=True), Meddles())
    if change == "grows":
        assert done.left == [] and (there / "deep/er/big").read_bytes() == BIG
    else:
        why = "it was deleted meanwhile" if change == "vanishes" else "it changed while it was read"
        assert done.left == [("deep/er/big", why)]
        assert not (there / "deep/er/big").exists()
    assert (there / "deep/run").exists() and not list(there.rglob(".jhpc*"))


def test_holes_permissions_and_times_go_along(wire: Wire, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "holes").open("wb") as file:
        file.truncate(5_000_000)
    (source / "key").write_text("secret")
    (source / "key").chmod(0o600)
    os.utime(source / "key", (1_500_000_000, 1_500_000_000))
    push(wire, [Source(str(source), "")], str(tmp_path / "there"), Options(contents=True), Heard())
    holes, key = tmp_path / "there/holes", (tmp_path / "there/key").stat()
    assert holes.read_bytes() == bytes(5_000_000)
    assert stat.S_IMODE(key.st_mode) == 0o600 and key.st_mtime == 1_500_000_000
