"""A request for each answer of each address, and the two clusters that they are put to."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from jupyter_hpc.batch.submit.runs import NOTES
from jupyter_hpc.demo.cluster import DemoCluster
from tests.batch.notebooks import notebook
from tests.node.on_cluster import TOKEN, Hosts, NodeServer, finished_view, in_state, submit
from tests.node.schema import Operation

#: A job that no cluster of a test has.
NO_JOB = "4000000"

RECORDING = (
    "time,host,gpu,name,load,memory_mib,memory_total_mib,power_w,temperature_c\n"
    "1000,gpu01,0,X,10,100,400,50,40\n"
    "1001,gpu01,0,X,20,100,400,51,41\n"
)

#: A run that is noted, and whose folder was deleted by hand: nothing but its note goes.
FORGOTTEN = {
    "id": "3999999",
    "run_dir": "/tmp/no-such-folder/20261119-101500-0a1b",
    "mark": hashlib.sha256(b"").hexdigest()[:16],
}

NOTEBOOKS = {
    "good.ipynb": ["STEPS = 2", "%time print(STEPS)", "!pip install left-pad"],
    "refused.ipynb": ["print(1", "name = input('Name? ')"],
    "epochs.ipynb": ["epochs = 9", "import time\nprint(epochs)\ntime.sleep(600)"],
}
SCRIPTS = {"train.py": "print('trained')\n", "clean.sh": "echo cleaned\n"}

SMALL = {"partition": "cpu", "time": "5", "cpus": 1, "memory": "300M", "gpus": 0}


@dataclass
class World:
    """One cluster with a server in a job, one that has no Slurm, and jobs to ask about."""

    hosts: Hosts
    user: str
    #: The home folder as the user sees it.
    home: str
    server: NodeServer
    bare: NodeServer
    _jobs: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        """The id of a job by what it is; a `new_…` one is submitted at each call."""
        if name.startswith("new_"):
            return self._submit(name.removeprefix("new_"))
        if name not in self._jobs:
            self._jobs[name] = self._submit(name)
        return self._jobs[name]

    def _submit(self, name: str) -> str:
        if name == "trial":  # one runs
            self.server.ask("trial", "POST", body={"request": batch("epochs.ipynb")})
        if name == "no_trial":
            self.server.ask(f"trial?id={self['new_asked']}", "DELETE")
        if name in ("trial", "no_trial", "asked"):
            return str(self.server.ask("trial")[1]["id"])
        if name == "run":  # a job of this product
            return str(self.server.ask("submit", "POST", body=batch())[1]["job_id"])
        if name == "held":
            return self._sbatch("true", "--hold")
        if name == "later":
            return self._sbatch("true", "--begin=now+1hour")
        if name == "array":
            return self._sbatch("true", "--array=1-3%1", "--hold")
        if name == "running":
            job = self._sbatch("echo out; echo err >&2; sleep 600", "--error=%j.err", "--requeue")
            in_state(self.server, job, "RUNNING")
            return job
        assert name == "ended", name
        job = self._sbatch("exit 3")
        finished_view(self.server, job)
        return job

    def _sbatch(self, body: str, *options: str) -> str:
        return submit(self.hosts, body, *options, user=self.user, at=self.home)

    def write(self, name: str, text: str) -> None:
        """A file of the user in the home folder."""
        path = self.hosts.home(self.user) / name
        path.write_text(text, encoding="utf-8")
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def _sh(self, script: str, *names: str) -> None:
        """Run a line on the login host, with these members of FORGOTTEN."""
        argv = ["sh", "-c", script, "sh", *(FORGOTTEN[name] for name in names)]
        self.hosts.run("login1", argv, user=self.user, input=None, cwd=self.home, check=True)

    def prepare(self) -> None:
        """The files that the requests are about."""
        for name, cells in NOTEBOOKS.items():
            self.write(name, json.dumps(notebook(cells)))
        for name, text in SCRIPTS.items():
            self.write(name, text)
        self._sh(f'mkdir -p "{NOTES}" && echo "$1" > "{NOTES}/$2"', "run_dir", "id")
        self.write("gpu-usage.csv", RECORDING)  # beside every job that starts in the home


class DemoHosts:
    """The embedded cluster, as a test starts programs on the real one."""

    def __init__(self, demo: DemoCluster) -> None:
        self._demo = demo

    def home(self, user: str) -> Path:
        return self._demo.layout.home

    def run(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str,
        input: str | bytes | None,
        cwd: str | None,
        check: bool,
    ) -> subprocess.CompletedProcess[str]:
        environment = self._demo.host_environment(self._demo.login)
        text = input.decode() if isinstance(input, bytes) else input
        return subprocess.run(
            list(argv),
            env=environment,
            input=text,
            cwd=cwd,
            check=check,
            capture_output=True,
            text=True,
            timeout=60,
        )

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
    ) -> subprocess.Popen[bytes]:
        environment = {**self._demo.host_environment(self._demo.login), **(env or {})}
        return subprocess.Popen(
            list(argv),
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )


@dataclass(frozen=True)
class Case:
    """One request, and the status that it is answered with."""

    verb: str
    path: str
    status: int
    #: What is asked below the extension; {names} are jobs of the world.
    address: str
    body: object = None
    token: str = TOKEN
    #: Ask the server that has no Slurm, and whose site has switched off what it can.
    bare: bool = False

    @property
    def operation(self) -> Operation:
        return Operation(self.verb, f"/jupyter-hpc/{self.path}")

    def ask(self, world: World) -> tuple[int, Any]:
        """(status, answer); the answer has been held against the document."""
        server = world.bare if self.bare else world.server
        if self.status == 101:
            with server.stream() as stream:
                return stream.getstatus() or 0, None
        address = self.address.format_map(_Names(world))
        return server.ask(address, self.verb.upper(), self.token, self.body)

    def __str__(self) -> str:
        return f"{self.verb} {self.address} {self.status}{' bare' if self.bare else ''}"


class _Names(dict[str, str]):
    """The names in an address; each is looked up when it is met."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def __missing__(self, name: str) -> str:
        return self._world[name]


def batch(path: str = "good.ipynb", **request: object) -> dict[str, object]:
    """The body of a convert or submit."""
    return {"path": path, "request": {**SMALL, **request}}


def _cases() -> Iterator[Case]:
    yield Case("get", "session", 200, "session")
    yield Case("get", "session", 200, "session", bare=True)
    yield Case("get", "session", 403, "session", token="wrong")

    yield Case("get", "gpus", 200, "gpus")
    yield Case("get", "gpus", 503, "gpus", bare=True)

    yield Case("get", "nodes", 200, "nodes")
    yield Case("get", "nodes", 503, "nodes", bare=True)
    yield Case("get", "nodes", 403, "nodes", token="wrong")

    yield Case("get", "gpus/history", 200, "gpus/history")
    yield Case("get", "gpus/history", 200, "gpus/history?seconds=60&points=5")
    yield Case("get", "gpus/history", 400, "gpus/history?points=x")
    yield Case("get", "gpus/history", 503, "gpus/history", bare=True)

    yield Case("get", "jobs", 200, "jobs")
    yield Case("get", "jobs", 200, "jobs?refresh=1")
    yield Case("get", "jobs", 503, "jobs", bare=True)

    for name in ("running", "held", "later", "array", "ended"):
        yield Case("get", "jobs/{job_id}", 200, f"jobs/{{{name}}}")
    yield Case("get", "jobs/{job_id}", 404, f"jobs/{NO_JOB}")
    yield Case("get", "jobs/{job_id}", 400, "jobs/1%3Bid")
    yield Case("get", "jobs/{job_id}", 503, "jobs/1", bare=True)

    log = "jobs/{job_id}/log"
    yield Case("get", log, 200, "jobs/{running}/log")
    yield Case("get", log, 200, "jobs/{running}/log?stream=stderr&offset=1&limit=2")
    yield Case("get", log, 200, "jobs/{held}/log")
    yield Case("get", log, 200, "jobs/{ended}/log")
    yield Case("get", log, 404, f"jobs/{NO_JOB}/log")
    yield Case("get", log, 400, "jobs/{running}/log?stream=secret")

    gpus = "jobs/{job_id}/gpus"
    yield Case("get", gpus, 200, "jobs/{ended}/gpus")
    yield Case("get", gpus, 404, f"jobs/{NO_JOB}/gpus")
    yield Case("get", gpus, 400, "jobs/{ended}/gpus?points=1")

    report = "jobs/{job_id}/report"
    yield Case("get", report, 200, "jobs/{ended}/report")
    yield Case("get", report, 200, "jobs/{ended}/report?kind=json")
    yield Case("get", report, 400, "jobs/{ended}/report?kind=pdf")
    yield Case("get", report, 404, f"jobs/{NO_JOB}/report")
    yield Case("get", report, 400, "jobs/1%3Bid/report")

    overview = "jobs/{job_id}/overview"
    yield Case("get", overview, 200, "jobs/{run}/overview?points=20")
    yield Case("get", overview, 200, "jobs/{ended}/overview")
    yield Case("get", overview, 404, f"jobs/{NO_JOB}/overview")
    yield Case("get", overview, 400, "jobs/{run}/overview?run=x")

    yield Case("get", "runs/curves", 200, "runs/curves?ids={run}&points=20")
    yield Case("get", "runs/curves", 404, f"runs/curves?ids={NO_JOB}")
    yield Case("get", "runs/curves", 400, "runs/curves?ids=1%3Bid")
    yield Case("get", "runs/curves", 403, "runs/curves?ids=1", token="wrong")

    action = "jobs/{job_id}/{action}"
    yield Case("post", action, 200, "jobs/{new_later}/hold")
    yield Case("post", action, 200, "jobs/{new_held}/release")
    yield Case("post", action, 200, "jobs/{new_running}/requeue")
    yield Case("post", action, 200, "jobs/{new_held}/cancel")
    yield Case("post", action, 200, "jobs/{new_held},{new_later}/cancel")
    yield Case("post", action, 409, f"jobs/{{new_held}},{NO_JOB}/hold")
    yield Case("post", action, 404, f"jobs/{NO_JOB}/hold")
    yield Case("post", action, 400, "jobs/-1/cancel")
    yield Case("post", action, 503, "jobs/1/cancel", bare=True)

    yield Case("get", "runs", 200, "runs?after={run}")
    yield Case("get", "runs", 403, "runs", token="wrong")
    yield Case("get", "runs/contents", 200, "runs/contents?ids={run}")
    yield Case("get", "runs/contents", 400, "runs/contents?ids=1%3Bid")
    yield Case("post", "runs/delete", 200, "runs/delete", {"runs": [FORGOTTEN]})
    gone = {"id": NO_JOB, "run_dir": "/tmp/20261119-101500-0a1b", "mark": "0"}
    yield Case("post", "runs/delete", 409, "runs/delete", {"runs": [gone]})
    yield Case("post", "runs/delete", 400, "runs/delete", {"runs": []})
    yield Case("post", "runs/delete", 503, "runs/delete", {"runs": [gone]}, bare=True)
    yield Case("get", "runs/{run_id}/again", 200, "runs/{run}/again")
    yield Case("get", "runs/{run_id}/again", 404, f"runs/{NO_JOB}/again")

    yield Case("get", "storage", 200, "storage")
    yield Case("get", "storage", 403, "storage", bare=True)

    yield Case("get", "partitions", 200, "partitions")
    yield Case("get", "partitions", 503, "partitions", bare=True)

    yield Case("get", "modules", 200, "modules")
    yield Case("get", "modules", 403, "modules", token="wrong")

    yield Case("get", "cluster", 200, "cluster")
    yield Case("get", "cluster", 503, "cluster", bare=True)

    yield Case("post", "convert", 200, "convert", batch())
    yield Case("post", "convert", 200, "convert", {**batch(), "mode": "notebook", "check": False})
    yield Case("post", "convert", 200, "convert", {**batch(), "verify": True})
    yield Case("post", "convert", 200, "convert", {**batch(), "parameters": {"STEPS": "1,2"}})
    yield Case("post", "convert", 200, "convert", batch("refused.ipynb"))
    yield Case("post", "convert", 200, "convert", batch(time="9-00:00:00"))
    yield Case("post", "convert", 200, "convert", {**batch("train.py"), "then": ["clean.sh -v"]})
    yield Case("post", "convert", 503, "convert", batch(), bare=True)
    yield Case("post", "convert", 400, "convert", batch("../outside.ipynb"))
    yield Case("post", "convert", 400, "convert", ["no", "request"])

    yield Case("post", "submit", 200, "submit", batch())
    yield Case("post", "submit", 200, "submit", {**batch("train.py"), "arguments": "--epochs 1"})
    yield Case("post", "submit", 409, "submit", {**batch(), "seen": ["cell 1:another"]})
    yield Case("post", "submit", 422, "submit", batch("refused.ipynb"))
    yield Case("post", "submit", 422, "submit", batch(partition="nowhere"))
    yield Case("post", "submit", 400, "submit", batch(mistake=1))

    trial = {"request": batch("epochs.ipynb"), "epochs": 2, "seconds": 60}
    yield Case("post", "trial", 200, "trial?after={new_no_trial}", trial)
    yield Case("post", "trial", 409, "trial?beside={new_trial}", trial)
    yield Case("post", "trial", 400, "trial", {"request": batch()})
    yield Case("post", "trial", 400, "trial", trial, bare=True)
    yield Case("post", "trial", 400, "trial?after={new_no_trial}", {**trial, "seconds": 90000})
    yield Case("post", "trial", 422, "trial", {**trial, "request": batch("refused.ipynb")})
    yield Case("get", "trial", 200, "trial?beside={new_trial}")
    yield Case("get", "trial", 200, "trial", bare=True)
    yield Case("get", "trial", 403, "trial", token="wrong")
    yield Case("delete", "trial", 200, "trial?id={new_trial}")
    yield Case("delete", "trial", 200, "trial?id=another")
    yield Case("delete", "trial", 403, "trial", token="wrong")

    yield Case("post", "tensorboard", 200, "tensorboard", {"logdir": "."})
    yield Case("post", "tensorboard", 400, "tensorboard", {"logdir": "no/such/folder"})
    yield Case("post", "tensorboard", 503, "tensorboard", {"logdir": "."}, bare=True)
    yield Case("get", "tensorboard", 200, "tensorboard?beside=a.ipynb")
    yield Case("get", "tensorboard", 403, "tensorboard", token="wrong")
    yield Case("post", "leave", 200, "leave")
    yield Case("post", "leave", 400, "leave", {"variables": "all"})
    yield Case("post", "leave", 403, "leave", token="wrong")
    yield Case("post", "restore", 200, "restore", {"sessions": [], "terminals": []})
    yield Case("post", "restore", 400, "restore", {"sessions": "none"})
    yield Case("get", "restored", 200, "restored")
    yield Case("get", "restored", 403, "restored", token="wrong")

    yield Case("get", "stream", 101, "stream")
    yield Case("get", "stream", 400, "stream")


CASES = tuple(_cases())


@contextmanager
def prepared(world: World) -> Iterator[World]:
    """The world with its files; its jobs are cancelled in the end."""
    world.prepare()
    try:
        yield world
    finally:
        argv = ["scancel", f"--user={world.user}"]
        world.hosts.run("login1", argv, user=world.user, input=None, cwd=world.home, check=False)
