"""What must not end a session: a reader or a terminal that goes, and too few files."""

from __future__ import annotations

import contextlib
import http.client
import json
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
from tests.connect.real.sessions import command, environment, run
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
