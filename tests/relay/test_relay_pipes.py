"""The relay's pipes: the attach helper, and the targets of streams."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.relay import frames, targets
from tests.relay.by_hand import ask, linked
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
    echo,
    running_relay,
    unix_server,
)
from tests.waiting import stays, until

# -- the attach helper ----------------------------------------------------------------------


async def test_the_helper_ends_when_its_pipe_is_replaced(node: RelayProcess) -> None:
    link = Link(SECRET, "laptop")
    pipe = await node.attach_pipe(b"motd\nmore\n")
    await link.attach(pipe)
    assert bytes((await ask(link, b"one")).data) == b"one"
    await link.attach(await node.pipe())
    assert await asyncio.to_thread(pipe.process.wait, PATIENCE) == 0
    assert bytes((await ask(link, b"two")).data) == b"two"
    await link.close()


async def test_a_killed_helper_closes_the_pipe_and_keeps_the_session(node: RelayProcess) -> None:
    link = Link(SECRET, "laptop")
    pipe = await node.attach_pipe()
    await link.attach(pipe)
    end = Collector()
    end.stream = link.open("", end)
    end.stream.send(b"before ")
    await end.wait(lambda: len(end.data) == 7)
    pipe.process.kill()
    await asyncio.wait_for(link.wait_trouble(), PATIENCE)
    end.stream.send(b"after")
    await link.attach(await node.attach_pipe())
    await end.wait(lambda: bytes(end.data) == b"before after")
    pipe.process.wait()
    await link.close()


async def test_the_helper_says_that_nobody_answers(tmp_path: Path) -> None:
    node = RelayProcess()
    try:
        done = subprocess.run(
            [sys.executable, str(node.script), "--attach", str(tmp_path / "none.sock")],
            input=b"",
            capture_output=True,
            timeout=60,
        )
    finally:
        node.close()
    assert done.returncode == 3 and b"no relay answers" in done.stderr and not done.stdout


async def test_a_helper_with_useless_descriptors_does_no_harm(node: RelayProcess) -> None:
    with open(node.script, "rb") as file, open(node.folder / "out", "wb") as out:
        done = subprocess.run(
            [sys.executable, str(node.script), "--attach", node.socket_path],
            stdin=file,
            stdout=out,
            timeout=60,
        )
    assert done.returncode == 0
    link = await linked(node)
    assert bytes((await ask(link, b"alive")).data) == b"alive"
    await link.close()


async def test_a_hundred_pipes_leave_nothing_behind(node: RelayProcess) -> None:
    link = await linked(node)
    end = Collector()
    end.stream = link.open("", end)
    for _ in range(5):
        await link.attach(await node.pipe())
    before = node.descriptors()
    for number in range(100):
        end.stream.send(b"%04d" % number)
        await link.attach(await node.pipe())
    await end.wait(lambda: len(end.data) == 400)
    assert bytes(end.data) == b"".join(b"%04d" % number for number in range(100))
    await until(lambda: node.descriptors() <= before)
    await link.close()


# -- targets --------------------------------------------------------------------------------


async def test_without_a_free_descriptor_a_stream_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would else wait for ever, and the browser with it."""

    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", none_left)
    with pytest.raises(targets.TargetRefused) as refused:
        await targets.connect_target(b"", "/nowhere")
    assert refused.value.code == frames.UNREACHABLE


async def test_loopback_services_of_the_user_can_be_reached(node: RelayProcess) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    link = await linked(node)
    for host in ("127.0.0.1", "localhost"):
        assert bytes((await ask(link, b"tcp", f"tcp:{host}:{port}")).data) == b"tcp"
    server.close()
    await server.wait_closed()
    assert (await ask(link, b"x", f"tcp:127.0.0.1:{port}")).reset == frames.UNREACHABLE
    await link.close()


@pytest.mark.parametrize(
    "target",
    [
        "tcp:192.0.2.1:80",
        "tcp:0.0.0.0:80",
        "tcp:127.0.0.1:0",
        "tcp:127.0.0.1:99999",
        "tcp:127.0.0.1:80/x",
        "tcp:127.0.0.2:80",
        "tcp:example.org:80",
        "unix:relative",
        "file:/etc/passwd",
        "exec:true",
        "unix:/etc/passwd",
        "unix:/\0abstract",
    ],
)
async def test_other_targets_are_forbidden(node: RelayProcess, target: str) -> None:
    link = await linked(node)
    assert (await ask(link, b"x", target)).reset == frames.FORBIDDEN
    await link.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play another user")
async def test_services_of_other_users_are_forbidden(node: RelayProcess) -> None:
    script = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdin is not None and other.stdout is not None
    link = await linked(node)
    try:
        port = int(other.stdout.readline())
        assert (await ask(link, b"x", f"tcp:127.0.0.1:{port}")).reset == frames.FORBIDDEN
        foreign = str(node.folder / "foreign.sock")
        async with unix_server(foreign, echo):
            os.chown(foreign, 65534, 65534)
            assert (await ask(link, b"x", f"unix:{foreign}")).reset == frames.FORBIDDEN
    finally:
        other.stdin.close()
        other.wait(PATIENCE)
        other.stdout.close()
        await link.close()


async def test_a_jupyter_that_does_not_listen_is_unreachable() -> None:
    async with running_relay() as node:
        link = await linked(node)
        assert (await ask(link, b"x")).reset == frames.UNREACHABLE
        await link.close()


async def test_a_full_backlog_is_waited_for() -> None:
    async with running_relay() as node:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(node.jupyter)
        listener.listen(0)
        link = await linked(node)
        ends = []
        for _ in range(5):
            end = Collector()
            end.stream = link.open("", end)
            end.stream.send(b"x")
            ends.append(end)
        await stays(lambda: all(end.reset is None for end in ends), seconds=0.3)
        listener.settimeout(PATIENCE)
        for _ in range(5):
            accepted, _ = await asyncio.to_thread(listener.accept)
            assert accepted.recv(1) == b"x"
            accepted.close()
        listener.close()
        await link.close()


async def test_facts_say_whether_jupyter_lives() -> None:
    node = RelayProcess()
    pid_file = node.folder / "jupyter.pid"
    try:
        await node.start("--jupyter-pid", str(pid_file))
        link = await linked(node)
        assert (await link.facts())["jupyter_alive"] is None
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
        pid_file.write_text(f"{child.pid}\n")
        facts = await link.facts()
        assert node.process is not None
        assert facts["jupyter_pid"] == child.pid and facts["jupyter_alive"] is True
        assert facts["pid"] == node.process.pid and facts["sessions"] == 1
        child.kill()
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT) is None:
            pass
        assert (await link.facts())["jupyter_alive"] is False, "a zombie is not alive"
        child.communicate()
        assert (await link.facts())["jupyter_alive"] is False
        await link.close()
    finally:
        node.close()


async def test_a_control_stream_cannot_be_flooded(node: RelayProcess) -> None:
    link = await linked(node)
    end = Collector()
    end.stream = link.open("control:", end)
    end.stream.send(b"x" * 10_000)
    await end.wait(lambda: end.reset == frames.FORBIDDEN)
    assert (await link.facts())["sessions"] == 1
    await link.close()
