"""push and pull beside scp, on the real test cluster: whole commands, login included.

    python -m bench files

One file of 1 GB, and 10,000 files of 4 kB, both ways, rounds interleaved; 5,000 of the small ones
over a line that takes 1 ms there and back, as on a campus, and 300 over one of 20 ms, as in the
same country. Both ends are in memory (/dev/shm), so that the disk of the machine is no part of it.
Seconds are medians; the ratio is that of scp's to ours in the same round (more than 1: ours is
faster).

"first" is the first transfer to a cluster, over a login of our own; "ours" each later one, for
which it is known that the system's ssh gets in alone. At the end, untimed: the most memory that
the command and its end on the cluster took.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, environment

ROUNDS = 3
LARGE_BYTES = 1_000_000_000
SMALL_FILES, SMALL_BYTES = 10_000, 4096
#: Milliseconds each way, and files: scp takes a quarter of an hour for all of them over the second.
LINES = ((0.5, 5_000), (10, 300))
THERE = "/dev/shm/jupyter-hpc-bench"

#: In the command line of the end on the cluster, and in no other.
FAR_END = b"zlib.decompress(reader.read("


class Bench:
    """One laptop, and what is copied back and forth."""

    def __init__(self, cluster: Cluster, laptop: Laptop, folder: Path) -> None:
        self._cluster = cluster
        self._laptop = laptop
        self._back = folder / "back"
        laptop.write_profile("mini")

    def compare(
        self, source: Path, line: str, *, tools: Sequence[str] = ("ours", "scp"), rounds: int
    ) -> None:
        """Both directions, and what they took."""
        self._learn(source)
        for direction in ("push", "pull"):
            times: dict[str, list[float]] = {tool: [] for tool in tools}
            for _ in range(rounds):
                for tool, taken in times.items():
                    self._tidy(direction)
                    taken.append(self._timed(self._argv(tool, direction, source)))
            self._show(f"{direction} {source.name:6} {line:5}", times)
        self._clear()

    def memory(self, source: Path) -> None:
        """The most that the command and the other end had in memory, in MB."""
        self._learn(source)
        for direction in ("push", "pull"):
            self._tidy(direction)
            argv = self._argv("ours", direction, source)
            process = subprocess.Popen(
                argv, env=environment(self._laptop), stdout=subprocess.DEVNULL
            )
            far = _Watched()
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
            told = f"{direction} {source.name:6} command {used.ru_maxrss / 1024:.0f} MB"
            print(f"{told}  there {far.most() / 1024:.0f} MB", flush=True)
        self._clear()

    def _learn(self, source: Path) -> None:
        """The first transfer, after which ssh is known to get in alone."""
        self._clear()
        one = source / next(iter(os.listdir(source)))
        self._timed(command("push", "--dry-run", str(one), f"mini:{THERE}"))

    def _argv(self, tool: str, direction: str, source: Path) -> list[str]:
        there = f"{'login1' if tool == 'scp' else 'mini'}:{THERE}"
        pair = [str(source), there] if direction == "push" else [there, str(self._back)]
        if tool == "scp":
            return ["scp", "-F", str(self._laptop.ssh_config), "-q", "-r", *pair]
        if tool == "first":
            shutil.rmtree(self._laptop.home / ".local/share/jupyter/hpc/logins", True)
        return command(direction, *pair)

    def _timed(self, argv: Sequence[str]) -> float:
        began = time.monotonic()
        subprocess.run(
            argv,
            env=environment(self._laptop),
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=600,
        )
        return time.monotonic() - began

    def _tidy(self, direction: str) -> None:
        if direction == "push":
            self._clear()
        shutil.rmtree(self._back, ignore_errors=True)

    def _clear(self) -> None:
        self._cluster.run("login1", ["rm", "-rf", THERE], user="alice")

    def _show(self, what: str, times: dict[str, list[float]]) -> None:
        told = [what]
        for tool, taken in times.items():
            told.append(f"{tool} {statistics.median(taken):6.2f} s")
            if tool != "scp":
                pairs = zip(times["scp"], taken, strict=True)
                told.append(f"({statistics.median(scp / ours for scp, ours in pairs):5.2f}x)")
        print("  ".join(told), f" (load {os.getloadavg()[0]:.1f})", flush=True)


class _Watched:
    """Looks at the memory of the end on the cluster while it is there."""

    def __init__(self) -> None:
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def most(self) -> int:
        """The most that it had, in kB; it is over."""
        self._over.set()
        self._thread.join()
        return self._most

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    if b"python" in words[0] and any(FAR_END in word for word in words):
                        status = (process / "status").read_text()
                        peak = status.partition("VmHWM:")[2].split()
                        self._most = max(self._most, int(peak[0]))
                except (OSError, IndexError):
                    continue


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, Cluster() as cluster:
        folder = Path(name)
        near = Bench(cluster, cluster.laptop("alice", "bench-files"), folder)
        large = _filled(folder / "large", 1, LARGE_BYTES)
        near.compare(large, "here", tools=("ours", "first", "scp"), rounds=ROUNDS)
        near.memory(large)
        shutil.rmtree(large)
        small = _filled(folder / "small", SMALL_FILES, SMALL_BYTES)
        near.compare(small, "here", tools=("ours", "first", "scp"), rounds=ROUNDS)
        near.memory(small)
        shutil.rmtree(small)
        for each_way, files in LINES:
            fewer = _filled(folder / f"{files}", files, SMALL_BYTES)
            with cluster.slow_laptop("alice", "bench-line", milliseconds=each_way) as laptop:
                line = f"{2 * each_way:g} ms"
                Bench(cluster, laptop, folder).compare(fewer, line, rounds=1)


def _filled(source: Path, files: int, size: int) -> Path:
    source.mkdir()
    for number in range(files):
        with (source / f"file-{number:05d}").open("wb") as file:
            for start in range(0, size, 1_000_000):
                file.write(os.urandom(min(1_000_000, size - start)))
    return source
