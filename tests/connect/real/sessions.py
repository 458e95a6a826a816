"""`jupyter-hpc connect` as a process on a test laptop, seen through its --json lines."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_hpc.runner import COMMAND_LOG_VARIABLE
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.waiting import eventually

CHECKOUT = Path(__file__).resolve().parents[3]


def environment(laptop: Laptop) -> dict[str, str]:
    """The laptop's environment, in which this checkout's jupyter-hpc is installed."""
    kept = {
        name: os.environ[name]
        for name in (COMMAND_LOG_VARIABLE, "PYTHONPATH")
        if name in os.environ
    }
    return {**laptop.environment, **kept, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "jupyter_hpc", *words]


def run(laptop: Laptop, *words: str, timeout: float = 90) -> subprocess.CompletedProcess[str]:
    """One command of jupyter-hpc on the laptop, without a terminal."""
    return subprocess.run(
        command(*words),
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


class Session:
    """A running connect; `events` grows as it reports."""

    def __init__(self, laptop: Laptop, *words: str) -> None:
        self.laptop = laptop
        self.name = words[0]
        self.events: list[dict[str, Any]] = []
        self.stamps: list[float] = []
        self.errors = ""
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command("connect", *words, "--json"),
            env=environment(laptop),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.stamps.append(time.monotonic())
            self.events.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line

    def wait_for(self, name: str, timeout: float = 60, after: int = 0) -> dict[str, Any]:
        """The first event of that name from position `after` on; AssertionError if none comes."""

        def told() -> str:
            return (
                f"{name!r}; exit code {self.process.poll()}\n"
                f"events: {self.events}\nstderr: {self.errors}"
            )

        def look() -> dict[str, Any] | None:
            over = self.process.poll() is not None
            for thread in self._threads if over else ():
                thread.join(20)
            found = (event for event in self.events[after:] if event["event"] == name)
            event = next(found, None)
            assert event or not over, told()
            return event

        return eventually(look, told, seconds=timeout)

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]

    def end(self, sig: signal.Signals = signal.SIGTERM, timeout: float = 60) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(sig)
        return self.wait_exit(timeout)

    def wait_exit(self, timeout: float = 60) -> int:
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(20)
        return code

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, timeout: float = 30
    ) -> tuple[int, bytes, dict[str, str]]:
        """One request to the session's local port."""
        port = record(self.laptop, self.name)["port"]
        connection = http.client.HTTPConnection("localhost", port, timeout=timeout)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read(), dict(response.getheaders())
        finally:
            connection.close()


def record(laptop: Laptop, name: str) -> dict[str, Any]:
    """The session's record on the laptop."""
    path = laptop.home / ".local/share/jupyter/hpc/sessions" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@contextlib.contextmanager
def connected(laptop: Laptop, *words: str) -> Iterator[Session]:
    """A session that is ended, with its job, whatever the test does to it."""
    session = Session(laptop, *words)
    try:
        yield session
    finally:
        if session.process.poll() is None:
            session.process.send_signal(signal.SIGCONT)
            session.process.terminate()
            try:
                session.process.wait(30)
            except subprocess.TimeoutExpired:
                session.process.kill()
                session.process.wait(10)


def answers(session: Session, timeout: float = 15) -> None:
    """Jupyter answers through the port, at the latest after `timeout` seconds."""
    status = 0

    def good() -> bool:
        nonlocal status
        with contextlib.suppress(OSError):
            status = session.get("/api")[0]
        return status == 200

    eventually(
        good,
        lambda: f"the port answers {status}; {session.names()} {session.errors}",
        seconds=timeout,
    )


def pids(cluster: Cluster, host: str, pattern: str) -> list[str]:
    """The processes of alice there with such a command line."""
    return cluster.run(host, ["pgrep", "-u", "alice", "-f", pattern]).stdout.split()
