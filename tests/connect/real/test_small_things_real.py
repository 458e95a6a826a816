"""What must not end a session: a reader or a terminal that goes, and too few files."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, connected, environment, record, run
from tests.connect.real.terminal import Terminal
from tests.waiting import eventually

#: Files that the process may have open, also if it asks for more.
FILES = 200


@pytest.fixture
def laptop(cluster: Cluster) -> Laptop:
    fresh = cluster.laptop("alice", "small")
    fresh.write_profile("mini", {"slurm": {"poll_seconds": 1}})
    return fresh


@contextlib.contextmanager
def session(laptop: Laptop) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A connect --json that is ready, and its port."""
    process = subprocess.Popen(
        command("connect", "mini", "--json"),
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                break
        yield process, event["port"]
    finally:
        process.terminate()
        process.wait(60)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/api")
        return connection.getresponse().status == 200
    return False


def status(laptop: Laptop) -> dict[str, Any]:
    entries: list[dict[str, Any]] = json.loads(run(laptop, "status", "--json").stdout)
    return entries[0] if entries else {}


def log(laptop: Laptop) -> str:
    return Path(laptop.home, ".local/share/jupyter/hpc/logs/mini.log").read_text()


@pytest.fixture
def small_disk(laptop: Laptop) -> Iterator[Path]:
    """The folder of the laptop's records and logs, on a disk of its own with little room."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    folder = laptop.home / ".local/share/jupyter/hpc"
    folder.mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", folder], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(file: Path) -> None:
    """Write until there is no room for a byte more."""
    with file.open("wb", buffering=0) as full, contextlib.suppress(OSError):
        while True:
            full.write(bytes(512))


def test_a_session_outlives_a_full_disk(cluster: Cluster, laptop: Laptop, small_disk: Path) -> None:
    with connected(laptop, "mini") as session:
        port = session.wait_for("ready")["port"]
        fill(small_disk / "filler")
        assert cluster.kill_sessions("login1", "alice")
        said = session.wait_for("warning", after=session.names().index("ready") + 2)
        assert "No space left on device" in said["text"] and "goes on" in said["text"]
        session.wait_for("reconnected")
        assert answers(port) and status(laptop)["state"] == "ready"
        (small_disk / "filler").unlink()
        before = len(session.events)
        assert cluster.kill_sessions("login1", "alice")
        session.wait_for("reconnected", after=before)
        told = [event["text"] for event in session.events[before:]]
        assert "Records of this laptop can be written again." in told
        assert record(laptop, "mini")["state"] == "ready"
        assert run(laptop, "stop", "mini").returncode == 0
    assert "Traceback" not in session.errors and "Logging error" not in session.errors


def test_a_terminal_that_is_closed_leaves_the_session(cluster: Cluster, laptop: Laptop) -> None:
    """By closing it, as a window does: the system sends the signals, and reading ends."""
    for words in (["connect", "mini", "--no-browser"], ["connect", "mini", "--json"]):
        terminal = Terminal(command(*words), environment(laptop))
        with terminal:
            terminal.expect(r"http://localhost:\d+/lab")
            terminal.hang_up()
            eventually(lambda: status(laptop).get("state") == "ready")
            port = status(laptop)["port"]
            assert cluster.kill_sessions("login1", "alice")
            eventually(lambda: "event reconnected" in log(laptop), seconds=30)
            assert answers(port)
            assert run(laptop, "stop", "mini").returncode == 0
        eventually(lambda: not status(laptop))


def test_a_session_outlives_its_reader_its_terminal_and_a_crowd(
    cluster: Cluster, laptop: Laptop
) -> None:
    with session(laptop) as (process, port):
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        assert cluster.kill_sessions("login1", "alice")
        eventually(lambda: "Whoever read the output" in log(laptop))
        eventually(lambda: answers(port) and status(laptop).get("state") == "ready")

        process.send_signal(signal.SIGHUP)
        eventually(lambda: "The terminal was closed" in log(laptop))
        assert answers(port) and process.poll() is None

        with contextlib.ExitStack() as crowd:
            for _ in range(FILES + 50):
                with contextlib.suppress(OSError):
                    made = socket.create_connection(("127.0.0.1", port), 5)
                    crowd.enter_context(made)
            eventually(lambda: "connections to the local port are open" in log(laptop))
            assert cluster.kill_sessions("login1", "alice")
            eventually(lambda: log(laptop).count("event reconnected") >= 2)
        eventually(lambda: answers(port))
        assert process.poll() is None and "event ended" not in log(laptop)


@pytest.mark.parametrize("end", ["reader", "process"])
def test_a_detached_session_needs_nobody_who_reads(
    cluster: Cluster, laptop: Laptop, end: str
) -> None:
    """`connect --detach --json | head -1`, and a start whose process is killed meanwhile."""
    process = subprocess.Popen(
        command("connect", "mini", "--detach", "--json"),
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        if end == "reader":
            process.stdout.close()
            assert process.wait(60) == 0, process.stderr.read()
        else:
            process.kill()
    eventually(lambda: status(laptop).get("state") == "ready", seconds=30)
    assert cluster.jobs() == [status(laptop)["job_id"]]
    assert run(laptop, "stop", "mini").returncode == 0
    eventually(lambda: not status(laptop))
