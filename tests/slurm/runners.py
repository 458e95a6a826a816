"""Runners for tests: one that plays recorded answers, one that runs on a test cluster's host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed
from tests.cluster.cluster import Cluster

DATA = Path(__file__).with_name("data")

#: The releases whose answers were recorded, the oldest first.
RELEASES = tuple(sorted(path.name for path in DATA.iterdir() if path.is_dir()))

#: The one whose answers `recording` gives; conftest.py goes through all of them.
current_release = "22.05"


@dataclass(frozen=True)
class Recording:
    """One command with its answer, as it was recorded on a real cluster."""

    name: str
    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    def completed(self) -> Completed:
        return Completed(self.argv, self.returncode, self.stdout, self.stderr)


def recording(name: str) -> Recording:
    """A recorded answer by its name, see the README beside the files."""
    path = DATA / current_release / f"{name}.json"
    read = json.loads(path.read_text(encoding="utf-8"))
    return Recording(name, tuple(read["argv"]), read["returncode"], read["stdout"], read["stderr"])


def write_recording(name: str, done: Completed, version: str) -> None:
    """Store an answer where `recording` finds it."""
    path = DATA / version / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "argv": list(done.argv),
        "returncode": done.returncode,
        "stdout": done.stdout,
        "stderr": done.stderr,
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


class Player:
    """A runner that knows a few commands by heart and refuses all others."""

    where = "a recording"

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._answers = {each.argv: each for each in recordings}
        self.stdin: list[bytes | None] = []

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        if tuple(argv) not in self._answers:
            raise AssertionError(f"this command was not recorded: {list(argv)}")
        self.stdin.append(stdin)
        return self._answers[tuple(argv)].completed()


class PlainRunner:
    """Runs commands on this machine without entering them in the test run's record."""

    where = "this machine"

    def __init__(
        self, environment: Mapping[str, str] | None = None, folder: str | None = None
    ) -> None:
        self._environment, self._folder = environment, folder

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            cwd=self._folder,
        )
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(stdin), timeout)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        code = process.returncode if process.returncode is not None else -1
        texts = [data.decode("utf-8", "replace") for data in (stdout, stderr)]
        return Completed(tuple(argv), code, *texts)


class HostRunner:
    """Runs commands on a host of a real test cluster, without SSH and unrecorded."""

    def __init__(self, cluster: Cluster, user: str = "alice", host: str = "login1") -> None:
        self.where = host
        self._cluster, self._user = cluster, user

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        wrapped = self._cluster.hosts[self.where].command(argv, user=self._user)
        done = await PlainRunner().run(wrapped, stdin=stdin, timeout=timeout)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)
