"""A Jupyter server of alice in a job on a node of the real cluster, spoken to from here.

It listens on a unix socket in her home, which this machine can open as well: the
requests are real, and no port is needed. Every answer is held against openapi.yaml.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import websocket

from tests.cluster.handles import Handles
from tests.cluster.layout import ENV_PATH
from tests.node.schema import check, check_answer
from tests.waiting import eventually

TOKEN = "for-the-test"

START = "from jupyter_server.serverapp import main; main()"
EXTENSIONS = {
    "jupyter_hpc": True,
    **dict.fromkeys(("jupyterlab", "jupyter_lsp", "notebook_shim"), False),
    "jupyter_server_terminals": False,
}

#: Keeps the script of a job waiting until `let_go`.
WAITS = 'until [ -e "$HOME/go-$SLURM_JOB_ID" ]; do sleep 0.2; done'


class Hosts(Protocol):
    """What a server needs of a cluster, the real or the embedded one."""

    def home(self, user: str) -> Path: ...

    def run(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str,
        input: str | bytes | None,
        cwd: str | None,
        check: bool,
    ) -> subprocess.CompletedProcess[str]: ...

    def popen(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str,
        env: Mapping[str, str] | None,
        cwd: str | None,
        stdout: int | IO[Any] | None,
        stderr: int | IO[Any] | None,
    ) -> subprocess.Popen[bytes]: ...


class CheckedSocket(websocket.WebSocket):
    """A WebSocket that takes nothing but what the description of the stream has."""

    def recv(self) -> str | bytes:
        text = super().recv()
        if text:
            check(json.loads(text), "StreamMessage")
        return text


class NodeServer:
    """The server in the job, as a client sees it."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
        self.path = path
        self.process = process
        self.log = log

    def connect(self) -> socket.socket:
        """A new connection to the server."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(40)
        connection.connect(str(self.path))
        return connection

    def ask(
        self, path: str, method: str = "GET", token: str = TOKEN, body: object = None
    ) -> tuple[int, Any]:
        """(status, JSON) of one request; `body` is sent as JSON."""
        client = http.client.HTTPConnection("localhost")
        client.sock = self.connect()
        try:
            headers = {"Authorization": f"token {token}"}
            content = None if body is None else json.dumps(body)
            client.request(method, f"/jupyter-hpc/{path}", content, headers)
            answer = client.getresponse()
            value = json.loads(answer.read())
        finally:
            client.close()
        check_answer(method, path, answer.status, value)
        return answer.status, value

    @contextmanager
    def stream(self) -> Iterator[websocket.WebSocket]:
        """The WebSocket of the panels."""
        client = websocket.create_connection(
            "ws://localhost/jupyter-hpc/stream",
            socket=self.connect(),
            header={"Authorization": f"token {TOKEN}"},
            timeout=60,
            class_=CheckedSocket,
        )
        try:
            yield client
        finally:
            client.close()


@contextmanager
def node_server(
    cluster: Hosts,
    folder: Path,
    *,
    user: str = "alice",
    host: str = "gpu01",
    home: str | None = None,
    python: str = f"{ENV_PATH}/bin/python",
    job: Sequence[str] = ("--partition=gpu", "--gres=gpu:a100:1", "--mem=2G", "--time=20"),
    settings: Sequence[str] = (),
    floor: float = 1,
    environment: dict[str, str] | None = None,
) -> Iterator[NodeServer]:
    """Run a server as a step of a new job; without `job`, outside of any job.

    `home` is where the user's home is for the server itself.
    """
    home = home or f"/home/{user}"
    name = f"panels-{time.monotonic_ns()}"
    step = ["srun", "--job-name=panels session", *job] if job else []
    command = [
        python,
        "-c",
        START,
        f"--ServerApp.sock={home}/{name}.sock",
        f"--IdentityProvider.token={TOKEN}",
        "--ServerApp.open_browser=False",
        f"--ServerApp.jpserver_extensions={EXTENSIONS}",
        f"--ServerApp.root_dir={home}",
        f"--HpcExtension.poll_floor={floor}",
        *settings,
    ]
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = cluster.popen(
            host,
            [*step, *command],
            user=user,
            cwd=home,
            env=environment or {},
            stdout=output,
            stderr=output,
        )
    server = NodeServer(cluster.home(user) / f"{name}.sock", process, log)
    try:
        eventually(lambda: _answers(server))
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(server: NodeServer) -> bool:
    assert server.process.poll() is None, server.log.read_text()
    try:
        return server.ask("session")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def submit(
    cluster: Hosts, body: str = "sleep 300", *options: str, user: str = "alice", at: str = ""
) -> str:
    """Submit a script on the CPU node; returns the id."""
    done = cluster.run(
        "login1",
        ["sbatch", "--parsable", "--partition=cpu", "--mem=50M", "--time=10", *options],
        user=user,
        input=f"#!/bin/bash\n{body}\n",
        cwd=at or f"/home/{user}",
        check=True,
    )
    return done.stdout.strip()


def let_go(cluster: Handles, job_id: str) -> None:
    """Let a job of alice go on that `WAITS`."""
    (cluster.home("alice") / f"go-{job_id}").touch()


def jobs(server: NodeServer) -> dict[str, Any]:
    status, listed = server.ask("jobs?refresh=1")
    assert status == 200, listed
    check(listed, "Jobs")
    return dict(listed)


def row(server: NodeServer, job_id: str) -> dict[str, Any] | None:
    return next((job for job in jobs(server)["jobs"] if job["id"] == job_id), None)


def in_state(server: NodeServer, job_id: str, state: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        job = row(server, job_id)
        return job if job and job["state"] == state else None

    return dict(eventually(look))


def finished(server: NodeServer, job_id: str) -> dict[str, Any]:
    """The database's record of a job that has ended; it must have been seen in the queue before.

    What the controller tells ahead of it has no exit code.
    """

    def look() -> dict[str, Any] | None:
        listed = {job["id"]: job for job in jobs(server)["finished"]["jobs"]}
        job = listed.get(job_id)
        return job if job and job["exit_code"] is not None else None

    return dict(eventually(look))


def finished_view(server: NodeServer, job_id: str) -> dict[str, Any]:
    """All about a job that has ended, as the database has it.

    It may know of the end before the controller, and after it.
    """

    def look() -> dict[str, Any] | None:
        found = server.ask(f"jobs/{job_id}")[1]
        recorded = found.get("finished") and "elapsed" in found["job"]
        return dict(found) if recorded else None

    view = eventually(look)
    check(view, "JobView")
    return view


def ended(server: NodeServer, cluster: Handles, body: str, *options: str) -> str:
    """A job that was seen running and has ended; returns its id."""
    job_id = submit(cluster, f"{WAITS}; sleep 2; {body}", *options)
    in_state(server, job_id, "RUNNING")
    let_go(cluster, job_id)
    finished(server, job_id)
    return job_id
