"""push and pull beside scp, on the real test cluster: whole commands, login included.

    python -m bench files

One file of 1 GB, and 10,000 files of 4 kB, both ways, rounds interleaved; and 1,000 of the small
ones once over a line that takes 20 ms there and back, as to a cluster in the same country.
Both ends are in memory (/dev/shm), so that the disk of the machine is no part of it. Seconds are
medians; the ratio is that of scp's to ours in the same round (more than 1: ours is faster).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, environment

ROUNDS = 3
LARGE_BYTES = 1_000_000_000
SMALL_FILES, SMALL_BYTES = 10_000, 4096
#: scp takes a quarter of an hour for all of them over a line that is no cable in this machine.
FEWER_FILES, LINE_MILLISECONDS = 1_000, 10
THERE = "/dev/shm/jupyter-hpc-bench"


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, Cluster() as cluster:
        folder = Path(name)
        laptop = cluster.laptop("alice", "bench-files")
        laptop.write_profile("mini")
        for what in ("large", "small"):
            source = folder / what
            _fill(source, what)
            for direction in ("push", "pull"):
                _compare(cluster, laptop, source, direction, what, folder / "back")
            shutil.rmtree(source)
        with cluster.slow_laptop("alice", "bench-line", milliseconds=LINE_MILLISECONDS) as distant:
            distant.write_profile("mini")
            source = folder / "fewer"
            _fill(source, "fewer")
            for direction in ("push", "pull"):
                _compare(cluster, distant, source, direction, "fewer", folder / "back", "20 ms", 1)


def _fill(source: Path, what: str) -> None:
    source.mkdir()
    if what == "large":
        block = os.urandom(1_000_000)
        with (source / "file").open("wb") as file:
            for _ in range(LARGE_BYTES // len(block)):
                file.write(block)
        return
    for number in range(SMALL_FILES if what == "small" else FEWER_FILES):
        (source / f"file-{number:05d}").write_bytes(os.urandom(SMALL_BYTES))


def _compare(
    cluster: Cluster,
    laptop: Laptop,
    source: Path,
    direction: str,
    what: str,
    back: Path,
    line: str = "here",
    rounds: int = ROUNDS,
) -> None:
    scp = ["scp", "-F", str(laptop.ssh_config), "-q", "-r"]
    times: dict[str, list[float]] = {"jupyter-hpc": [], "scp": []}
    for _ in range(rounds):
        for tool, taken in times.items():
            if direction == "push":
                _clear(cluster)
                there = f"{'mini' if tool == 'jupyter-hpc' else 'login1'}:{THERE}"
                words = ["push", str(source), there] if tool != "scp" else [str(source), there]
            else:
                shutil.rmtree(back, ignore_errors=True)
                there = f"{'mini' if tool == 'jupyter-hpc' else 'login1'}:{THERE}"
                words = ["pull", there, str(back)] if tool != "scp" else [there, str(back)]
            argv = command(*words) if tool != "scp" else [*scp, *words]
            taken.append(_timed(argv, laptop))
    ratio = statistics.median(
        theirs / ours for theirs, ours in zip(times["scp"], times["jupyter-hpc"], strict=True)
    )
    ours, theirs = (statistics.median(times[tool]) for tool in ("jupyter-hpc", "scp"))
    load = os.getloadavg()[0]
    told = f"{direction} {what:5} {line:5}  ours {ours:6.2f} s  scp {theirs:6.2f} s  {ratio:5.2f}x"
    print(f"{told}  (load {load:.1f})", flush=True)
    if direction == "pull":
        _clear(cluster)
        shutil.rmtree(back, ignore_errors=True)


def _clear(cluster: Cluster) -> None:
    cluster.run("login1", ["rm", "-rf", THERE], user="alice")


def _timed(argv: Sequence[str], laptop: Laptop) -> float:
    began = time.monotonic()
    subprocess.run(
        argv,
        env=environment(laptop),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=600,
    )
    return time.monotonic() - began
