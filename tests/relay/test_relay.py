"""The relay: its one file, and its start."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.relay import frames, relay
from jupyter_hpc.relay.bundle import MODULES, relay_source
from tests.relay.by_hand import ask, linked
from tests.relay.harness import (
    SECRET,
    Collector,
    RelayProcess,
    echo,
    running_relay,
    unix_server,
)

OLD_PYTHON = Path.home() / ".pyenv/versions/3.9.18/bin/python"


# -- the one file ---------------------------------------------------------------------------


def test_the_joined_file_is_one_module_for_python_3_9() -> None:
    source = relay_source()
    tree = ast.parse(source, feature_version=(3, 9))
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


def shipped_build() -> str:
    """What a relay made from this installation says about itself."""
    (build,) = re.findall(r'^BUILD = "([0-9a-f]{16})"$', relay_source(), flags=re.MULTILINE)
    return str(build)


async def test_a_relay_tells_which_one_it_is(node: RelayProcess) -> None:
    shown = subprocess.run(
        [sys.executable, str(node.script), "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == shipped_build() != frames.BUILD
    link = await linked(node)
    assert link.relay_build == shipped_build()
    await link.close()


@pytest.mark.skipif(not OLD_PYTHON.exists(), reason="there is no Python 3.9 here")
async def test_it_runs_on_python_3_9() -> None:
    async with running_relay(str(OLD_PYTHON)) as node, unix_server(node.jupyter, echo):
        link = Link(SECRET, "laptop")
        await link.attach(await node.attach_pipe(b"Welcome to login1\r\n"))
        data = os.urandom(3 << 20)
        assert bytes((await ask(link, data)).data) == data
        await link.attach(await node.pipe())
        assert (await link.facts())["build"] == shipped_build()
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
