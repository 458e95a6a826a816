"""The constant scripts that run on clusters: clean for shellcheck, and right on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_hpc.connect.job import remote, scripts
from jupyter_hpc.errors import LaunchFailed
from jupyter_hpc.runner import Completed, LocalRunner
from tests.tools import shellcheck

#: Scripts by name; pieces that others are built from are checked with those.
WHOLE = {
    name: text
    for name, text in vars(scripts).items()
    if name.isupper()
    and isinstance(text, str)
    and name not in ("DETACH", "WATCH", "AWAIT", "FIELD", "EXITED")
}


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_every_script_is_clean_posix_shell(name: str) -> None:
    # SC2034: a variable that only one of the scripts built on a piece uses.
    shellcheck(f"#!/bin/sh\n# shellcheck disable=SC2034\n{WHOLE[name]}")


async def test_a_file_is_read_from_an_offset(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("one\ntwo\n")
    assert await remote.read_from(LocalRunner(), str(file), 4) == ("two\n", 8)
    assert await remote.read_from(LocalRunner(), str(file), -1) == ("one\ntwo\n", 8)
    assert await remote.read_from(LocalRunner(), str(file), 99) == ("one\ntwo\n", 8)
    assert await remote.read_from(LocalRunner(), str(tmp_path / "none"), 0) == ("", 0)


@pytest.mark.parametrize("size", ["\u00b2", "9" * 5000, "-1", ""])
async def test_a_size_that_is_none_is_not_believed(size: str) -> None:
    class Hostile:
        async def run(self, argv: Sequence[str], **_: object) -> Completed:
            return Completed(tuple(argv), 0, f"{size}\ntext", "")

    assert await remote.read_from(Hostile(), "log", 0) == ("text", 0)


async def test_one_connect_at_a_time_starts_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "7"
    runner = LocalRunner()
    placed = await remote.place_files(runner, str(folder), {"secret": b"a\nb", "empty": b""})
    assert placed == str(folder)
    assert (folder / "secret").read_bytes() == b"a\nb"
    assert (folder / "empty").read_bytes() == b""
    assert (folder / "secret").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert await remote.place_files(runner, str(folder), {"secret": b"other"}) == ""
    assert (folder / "secret").read_bytes() == b"a\nb"
    (folder / "lock").unlink()
    (folder / "lock").symlink_to("1000")
    assert await remote.place_files(runner, str(folder), {"secret": b"new"}) == str(folder)
    assert (folder / "secret").read_bytes() == b"new"


class Prefixed(LocalRunner):
    """Runs the script that places files after some definitions of ours."""

    def __init__(self, definitions: str) -> None:
        super().__init__()
        self._definitions = definitions

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 30.0
    ) -> Completed:
        argv = [self._definitions + word if "umask 077" in word else word for word in argv]
        return await super().run(argv, stdin=stdin, timeout=timeout)


#: A file system on which every step takes its time, so that others come in between.
SLOW = """
mkdir() { command mkdir "$@" && sleep 0.2; }
ln() { command ln "$@" && sleep 0.2; }
"""


@pytest.mark.parametrize("old_lock", [False, True])
async def test_of_many_connects_at_one_moment_one_starts_the_server(
    tmp_path: Path, old_lock: bool
) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    if old_lock:
        (folder / "lock").symlink_to("1000")
    placed = await asyncio.gather(
        *(
            remote.place_files(Prefixed(SLOW), str(folder), {"secret": str(number).encode()})
            for number in range(8)
        )
    )
    winners = [number for number, session in enumerate(placed) if session]
    assert len(winners) == 1
    assert (folder / "secret").read_text() == str(winners[0])


async def test_a_server_that_was_started_since_is_not_started_again(tmp_path: Path) -> None:
    runner = LocalRunner()
    address = tmp_path / "address"
    address.write_text(f"node=n\nfolder=/tmp/jh-old\njupyter_pid={2**22 + 1}\n")
    seen = await remote.find_server(runner, str(tmp_path), str(tmp_path / "none"))
    assert seen == {"dead": ["/tmp/jh-old"]}
    address.write_text("node=n\nfolder=/tmp/jh-new\n")
    for dead in ("", "/tmp/jh-old"):
        assert await remote.place_files(runner, str(tmp_path), {"secret": b"x"}, dead=dead) == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["address"]
    files = {"secret": b"x"}
    assert await remote.place_files(runner, str(tmp_path), files, dead="/tmp/jh-new")
    assert not address.exists()


async def test_a_folder_without_room_for_the_lock_is_said(tmp_path: Path) -> None:
    full = 'ln() { echo "ln: No space left on device" >&2; return 1; }\n'
    with pytest.raises(LaunchFailed, match="No space left on device"):
        await remote.place_files(Prefixed(full), str(tmp_path), {"secret": b"x"})


async def test_a_watched_file_is_shown_as_soon_as_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "log"
    text = await remote.start_and_watch(
        LocalRunner(), str(file), ["sh", "-c", "sleep 0.3; echo said; exit 4"], 30.0
    )
    assert text.startswith("said\n")
    whole = await remote.watch_file(LocalRunner(), str(file), len("said\n"), 30.0)
    assert whole == f"said\n{remote.EXITED}4\n"
