"""The scripts that run on clusters: clean for shellcheck, and right on this machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import psutil
import pytest

from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.remote import EXIT_LINE, script_text, shipped
from jupyter_hpc.errors import LaunchFailed
from jupyter_hpc.runner import Completed, LocalRunner
from tests.tools import shellcheck
from tests.waiting import until

SHIPPED = resources.files("jupyter_hpc.connect.job") / "shipped"

#: Every script but the one that is placed as a file on the cluster.
SCRIPTS = sorted(
    file.name
    for file in SHIPPED.iterdir()
    if file.name.endswith(".sh") and file.name != "launch.sh"
)
FUNCTIONS = sorted(file.name for file in (SHIPPED / "functions").iterdir())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_travels_whole_and_without_comments(name: str) -> None:
    text = script_text(name)
    shellcheck(f"#!/bin/sh\n{text}")
    assert text.startswith(f"# {name}\n") and text.count("# ") == 1
    assert len(text) < 2500
    own = shipped(name).decode()
    for function in FUNCTIONS:
        called = re.search(rf"^[^#\n]*\b{function.removesuffix('.sh')}\b ", own, re.M)
        assert (f"{function.removesuffix('.sh')}() {{" in text) == bool(called)


def test_every_script_and_every_function_is_used() -> None:
    source = "".join(
        file.read_text("utf-8")
        for room in ("job", "doctor")
        for file in resources.files(f"jupyter_hpc.connect.{room}").iterdir()
        if file.name.endswith(".py")
    )
    assert FUNCTIONS and [name for name in SCRIPTS if f'"{name}"' not in source] == []
    used = "".join(script_text(name) for name in SCRIPTS)
    unused = [name for name in FUNCTIONS if f"{name.removesuffix('.sh')}() {{" not in used]
    assert unused == []


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
        argv = [
            self._definitions + word if word == script_text("place.sh") else word for word in argv
        ]
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
    seen, said = await remote.find_server(runner, str(tmp_path), str(tmp_path / "none"))
    assert (seen, said) == ({"dead": ["/tmp/jh-old"], "looked": ["yes"]}, "")
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
    assert whole == f"said\n{EXIT_LINE}4\n"


def ended(pid: str) -> bool:
    try:
        return psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_step_is_awaited_until_it_says_where_it_is(tmp_path: Path) -> None:
    step = ["sh", "-c", 'echo jupyter_pid=$$ >"$0/address"; sleep 60', str(tmp_path)]
    found, fields = await remote.start_and_await(LocalRunner(), str(tmp_path), step, 30.0)
    assert found == "address"
    assert (tmp_path / "srun.log").stat().st_mode & 0o777 == 0o600
    # what stands for srun here is not waited for, and is ended
    (pid,) = fields["jupyter_pid"]
    await until(lambda: ended(pid), seconds=20)


async def test_a_step_that_ends_without_a_word_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("1000")
    step = ["sh", "-c", "echo srun: error: no >&2; exit 3"]
    found, _ = await remote.start_and_await(LocalRunner(), str(tmp_path), step, 60.0)
    assert found == ""
    assert (tmp_path / "srun.log").read_text() == f"srun: error: no\n{EXIT_LINE}3\n"
    assert not (tmp_path / "lock").is_symlink()


async def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    with pytest.raises(LaunchFailed, match=r"'true' could not be started on the cluster: .*none"):
        await remote.start_and_await(LocalRunner(), nowhere, ["true"], 30.0)
    with pytest.raises(LaunchFailed, match=r"'true' could not be started on the cluster: .*none"):
        await remote.start_detached(LocalRunner(), f"{nowhere}/log", ["true"])


async def test_what_was_detached_is_let_go(tmp_path: Path) -> None:
    log, command = str(tmp_path / "log"), ["sh", "-c", "echo begun; sleep 60"]
    pid = await remote.start_detached(LocalRunner(), log, command)
    assert await remote.watch_file(LocalRunner(), log, 0, 30.0) == "begun\n"
    assert not ended(pid)
    await remote.let_go(LocalRunner(), pid)
    await until(lambda: ended(pid), seconds=20)


async def test_the_first_of_some_files_is_shown(tmp_path: Path) -> None:
    (tmp_path / "failed").write_text("kind=root\nroot=/data\n")
    found, fields = await remote.await_file(
        LocalRunner(), str(tmp_path), ("address", "failed"), 30.0
    )
    assert (found, fields["root"]) == ("failed", ["/data"])
    assert (await remote.await_file(LocalRunner(), str(tmp_path), ("ended",), 0.05))[0] == ""


async def test_an_address_that_is_taken_back_while_it_is_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jupyter has ended by then, and why comes right after."""
    (tmp_path / "address").write_text("folder=/tmp/jh-1\n")
    cat = tmp_path / "bin" / "cat"
    cat.parent.mkdir()
    cat.write_text(
        '#!/bin/sh\n[ "${1##*/}" != address ] || { rm -f "$1"; echo code=1 >"${1%/*}/ended"; }\n'
        'exec /bin/cat "$@"\n'
    )
    cat.chmod(0o755)
    monkeypatch.setenv("PATH", f"{cat.parent}:/usr/bin:/bin")
    names = ("address", "failed", "ended")
    found, fields = await remote.await_file(LocalRunner(), str(tmp_path), names, 30.0)
    assert (found, fields["code"]) == ("ended", ["1"])


async def test_the_account_is_made_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    account = await remote.prepare_account(LocalRunner(), "fresh")
    assert account.writable and len(account.token) == 64 and account.token != account.cookie_secret
    assert await remote.prepare_account(LocalRunner(), "fresh") == account
    state = tmp_path / remote.STATE_FOLDER
    assert account.job_folder("7") == f"{state}/jobs/7"
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    log = state / ".salloc-1.log"
    log.write_text("salloc: Granted job allocation 7\n")
    kept = await remote.keep_log(LocalRunner(), str(log), account.job_folder("7"))
    assert kept == f"{state}/jobs/7/salloc.log"
    assert Path(kept).read_text() == "salloc: Granted job allocation 7\n"
