"""What the security tests look at: arguments of processes, and a session with a kernel."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
from collections.abc import Mapping
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.real.sessions import Session, record, run
from tests.waiting import eventually

#: Sets a terminal's title, turns it red, and is an element for a browser.
HOSTILE = "\x1b]0;owned\x07\x1b[31m<img src=x onerror=alert(1)>\u202e"

NODE = "cpu01"


class Arguments:
    """Every command line that any process of this machine and its clusters has had."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Arguments:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            for entry in os.listdir("/proc"):
                if entry.isdigit():
                    with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                        self.seen.add(file.read())


class Opened:
    """A session with a running kernel, and everything about it that is secret."""

    def __init__(self, cluster: Cluster, laptop: Laptop, session: Session) -> None:
        self.cluster = cluster
        self.laptop = laptop
        self.session = session
        self.job = session.wait_for("ready", 60)["job_id"]
        self.record = record(laptop, "mini")
        self.port: int = self.record["port"]
        self.url = run(laptop, "url", "mini").stdout.strip()
        self.state = cluster.home("alice") / ".local/state/jupyter-hpc"
        self.folder = self.state / "jobs" / self.job
        fields = (self.folder / "address").read_text().splitlines()
        self.address: dict[str, str] = dict(line.split("=", 1) for line in fields)
        self.token = self.url.partition("token=")[2]
        self.start_kernel()

    @property
    def private(self) -> str:
        """The folder of the sockets, on the node."""
        return self.address["folder"]

    @property
    def secrets(self) -> list[str]:
        files = (self.state / "cookie_secret", self.folder / "secret", self.state / "token")
        return [str(self.record["secret"]), self.token, *(file.read_text() for file in files)]

    def ask(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """One request to the local port, with the headers that are given and no more."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, names)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def start_kernel(self) -> None:
        status, body, _ = self.ask(
            "POST", "/api/kernels", b'{"name": "python3"}', Authorization=f"token {self.token}"
        )
        assert status == 201, body
        kernel = json.loads(body)["id"]
        socket = self.cluster.hosts[NODE].file(f"{self.private}/run/kernel-{kernel}-ipc-5")
        eventually(socket.is_socket)
        eventually(lambda: bool(self.cluster.hosts[NODE].listeners("alice")))

    def processes(self, host: str) -> list[tuple[int, tuple[str, ...]]]:
        """(process id inside the host, command line) of alice's processes."""
        uid = user_named("alice").uid
        found = self.cluster.hosts[host].processes()
        return [(each.inner_pid, each.argv) for each in found if each.uid == uid]


def alices_laptop(cluster: Cluster, name: str, **more: Mapping[str, Any]) -> Laptop:
    fresh = cluster.laptop("alice", name)
    usual: dict[str, Mapping[str, Any]] = {
        "slurm": {"poll_seconds": 2},
        "allocation": {"time": "02:00:00"},
    }
    fresh.write_profile("mini", {**usual, **more})
    return fresh


def end_jobs(cluster: Cluster) -> None:
    for user in ("alice", "mallory"):
        cluster.run("login1", ["scancel", f"--user={user}"])
    cluster.wait_until_idle(60)
