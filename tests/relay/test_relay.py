"""The relay: its one file, its start, and who may attach."""

from __future__ import annotations

import ast
import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_hpc.connect.link import Link
from jupyter_hpc.relay import frames, relay, sessions
from jupyter_hpc.relay.bundle import MODULES, relay_build, relay_source
from tests.relay.by_hand import Raw, ask, hello, linked
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
    echo,
    running_relay,
    unix_server,
)
from tests.waiting import until

OLD_PYTHON = Path.home() / ".pyenv/versions/3.8.18/bin/python"


# -- the one file ---------------------------------------------------------------------------


def test_the_joined_file_is_one_module_for_python_3_8() -> None:
    source = relay_source()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    } | {
        name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert imported <= set(sys.stdlib_module_names), "the relay needs more than the stdlib"
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [t.id for t in node.targets if isinstance(t, ast.Name)]
    assert len(names) == len(set(names)), "two modules define the same name"


def test_every_module_of_the_relay_is_shipped() -> None:
    folder = Path(relay.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} == {*MODULES, "bundle", "__init__"}


async def test_a_relay_tells_which_one_it_is(node: RelayProcess) -> None:
    shown = subprocess.run(
        [sys.executable, str(node.script), "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == relay_build() != frames.BUILD
    link = await linked(node)
    assert link.relay_build == relay_build()
    await link.close()


@pytest.mark.skipif(not OLD_PYTHON.exists(), reason="there is no Python 3.8 here")
async def test_it_runs_on_python_3_8() -> None:
    async with running_relay(str(OLD_PYTHON)) as node, unix_server(node.jupyter, echo):
        link = Link(SECRET, "laptop")
        await link.attach(await node.attach_pipe(b"Welcome to login1\r\n"))
        data = os.urandom(3 << 20)
        assert bytes((await ask(link, data)).data) == data
        await link.attach(await node.pipe())
        assert (await link.facts())["build"] == relay_build()
        await link.close()


# -- starting -------------------------------------------------------------------------------


def start_fails(node: RelayProcess, folder: Path | None = None) -> str:
    command = [sys.executable, str(node.script), "--serve", str(folder or node.folder)]
    done = subprocess.run(
        [*command, "--jupyter", node.jupyter], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


async def test_only_the_user_can_reach_the_socket(node: RelayProcess) -> None:
    assert stat.S_IMODE(os.stat(node.socket_path).st_mode) == 0o600


def test_it_serves_only_from_a_private_place() -> None:
    node = RelayProcess()
    try:
        node.folder.chmod(0o750)
        assert "not a private folder" in start_fails(node)
        node.folder.chmod(0o700)
        link = node.folder / "link"
        link.symlink_to(node.folder)
        assert "not a private folder" in start_fails(node, link)
        (node.folder / "relay.secret").chmod(0o640)
        assert "not a private file" in start_fails(node)
        (node.folder / "relay.secret").chmod(0o600)
        (node.folder / "relay.secret").write_text("short\n")
        assert "no secret" in start_fails(node)
        (node.folder / "relay.secret").unlink()
        assert "relay.secret" in start_fails(node)
    finally:
        node.close()


def test_a_path_too_long_for_a_socket_is_said() -> None:
    node = RelayProcess()
    try:
        deep = node.folder / ("d" * 90)
        deep.mkdir(mode=0o700)
        (deep / "relay.secret").write_text(SECRET)
        (deep / "relay.secret").chmod(0o600)
        assert "too long" in start_fails(node, deep)
    finally:
        node.close()


async def test_two_relays_never_serve_one_folder(node: RelayProcess) -> None:
    assert "another relay" in start_fails(node)
    link = await linked(node)
    assert bytes((await ask(link, b"still there")).data) == b"still there"
    await link.close()


async def test_a_killed_relay_can_be_started_again(node: RelayProcess) -> None:
    assert node.process is not None
    node.process.kill()
    node.process.wait()
    await node.start()
    link = await linked(node)
    assert bytes((await ask(link, b"again")).data) == b"again"
    await link.close()


async def test_sigterm_ends_it_and_its_socket(node: RelayProcess) -> None:
    link = await linked(node)
    end = Collector()
    end.stream = link.open("", end)
    node.stop()
    assert not Path(node.socket_path).exists()
    await end.wait(lambda: end.reset is not None)


# -- who may attach -------------------------------------------------------------------------


async def test_a_wrong_secret_is_refused_and_closed(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello(secret="a guess of more than sixteen characters"))
    assert raw.reply().status == frames.REFUSED
    assert raw.ended()


async def test_another_version_is_told_so(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(b"JHR9" + hello()[4:])
    assert raw.reply().status == frames.UNKNOWN_VERSION
    assert raw.ended()


async def test_an_abandoned_attempt_that_comes_late_is_refused(node: RelayProcess) -> None:
    first = Raw(node)
    first.say(hello(attempt=5))
    assert first.reply().status == frames.NEW
    for attempt in (4, 5):
        late = Raw(node)
        late.say(hello(attempt=attempt))
        assert late.reply().status == frames.STALE
        assert late.ended()
    first.say(frames.encode_wide(frames.PING, 7))
    assert first.socket.recv(9) == frames.encode_wide(frames.PONG, 7), "the live pipe was harmed"
    again = Raw(node)
    again.say(hello(attempt=6))
    assert again.reply().status == frames.RESUMED
    assert first.ended(), "the old pipe was not closed"


async def test_a_session_that_it_does_not_know_is_gone_not_new(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello(established=True, received=10))
    assert raw.reply().status == frames.GONE
    raw.say(hello(session=b"n" * 16))
    assert raw.reply().status == frames.NEW, "the same pipe may begin a new session"


async def test_a_count_that_cannot_be_ends_the_session(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello(attempt=1))
    assert raw.reply().status == frames.NEW
    again = Raw(node)
    again.say(hello(attempt=2, received=99, established=True))
    assert again.reply().status == frames.GONE


async def test_a_broken_frame_ends_the_session(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello() + frames.encode_frame(99, 1, 1))
    assert raw.reply().status == frames.NEW
    assert raw.ended()
    again = Raw(node)
    again.say(hello(attempt=2, established=True))
    assert again.reply().status == frames.GONE


async def test_hello_in_single_bytes(node: RelayProcess) -> None:
    raw = Raw(node)
    for byte in hello() + frames.encode_wide(frames.PING, 3):
        raw.say(bytes((byte,)))
    assert raw.reply().status == frames.NEW
    assert raw.socket.recv(9) == frames.encode_wide(frames.PONG, 3)


async def test_no_hello_in_time_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    table = sessions.Sessions(frames.digest(SECRET), "/nowhere")
    table.hello_deadline = 0.2
    accepting = relay.Listener(relay.listen(str(tmp_path)), table)
    try:
        for talk in (b"", b"JH"):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay.sock"))
            writer.write(talk)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
            writer.close()
        assert not table.doors
    finally:
        accepting.close()
        table.close()


async def test_a_flood_of_pipes_does_not_keep_the_gate_out(node: RelayProcess) -> None:
    before = node.descriptors()
    flood = []
    for number in range(300):
        flood.append(Raw(node))
        if number % 2:
            flood[-1].say(b"J")
        if not number % 50:
            await asyncio.sleep(0.05)
    link = await linked(node)
    assert bytes((await ask(link, b"in")).data) == b"in"
    assert node.descriptors() <= before + sessions.MOST_DOORS + 64 + 4
    for raw in flood:
        raw.socket.close()
    await link.close()


async def test_a_new_gate_of_the_same_owner_replaces_the_old_one(node: RelayProcess) -> None:
    reached, closed = asyncio.Event(), asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()
        closed.set()

    watched = str(node.folder / "w.sock")
    async with unix_server(watched, watch):
        old = await linked(node, "my laptop")
        other = await linked(node, "another laptop")
        end = Collector()
        end.stream = old.open(f"unix:{watched}", end)
        await asyncio.wait_for(reached.wait(), PATIENCE)
        session = old._session
        new = await linked(node, "my laptop")
        await asyncio.wait_for(closed.wait(), PATIENCE)
        await end.wait(lambda: end.reset == frames.ENDED)
        assert bytes((await ask(new, b"mine")).data) == b"mine"
        assert bytes((await ask(other, b"other")).data) == b"other"
        late = Raw(node)
        late.say(hello(session=session, attempt=50, established=True))
        assert late.reply().status == frames.SUPERSEDED
        await new.close()
        await other.close()


async def test_at_most_eight_sessions_without_a_pipe_are_kept(node: RelayProcess) -> None:
    guess = Raw(node)
    guess.say(hello(secret="a guess of more than sixteen characters"))
    assert guess.ended(), "the relay is not done with what came before"
    without = node.descriptors()
    for number in range(12):
        raw = Raw(node)
        raw.say(hello(session=bytes([number]) * 16))
        assert raw.reply().status == frames.NEW
        raw.socket.close()
        # The next one must not be lost before the relay has seen that this one is.
        await until(lambda: node.descriptors() <= without)
    kept = []
    for number in range(12):
        raw = Raw(node)
        raw.say(hello(session=bytes([number]) * 16, attempt=2, established=True))
        kept.append(raw.reply().status == frames.RESUMED)
    assert kept == [False] * 4 + [True] * 8
