"""Results on a disk that is full, on a real Slurm: what has room is there, the rest is named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.test_on_slurm import SMALL, User, alice, logs, submit_with
from tests.cluster.cluster import Cluster
from tests.cluster.layout import ENV_PATH

__all__ = ["alice"]

#: Small results, one that does not fit into 8 MB, and as long as it takes.
CELL = (
    "import os, time\nfor n in range(3):\n    open(f'small{n}.txt', 'w').write('kept')\n"
    "open('large.bin', 'wb').write(bytes(12_000_000))\nprint('written', flush=True)\n"
    "while os.path.exists('/tmp/held'):\n    time.sleep(0.1)"
)


def seen(cluster: Cluster, path: str) -> Path:
    """A place of the cluster where this machine sees what is mounted on the hosts."""
    return Path(f"/proc/{cluster.hosts['login1'].pid}/root{path}")


class UserOfSmallDisk(User):
    """alice in a folder with room for 8 MB."""

    def submitted(self, cell: str = CELL, interval: int = 300) -> tuple[str, Path]:
        job, run = submit_with(self, [cell], stage_out=["*"], interval=interval)
        inside = run.relative_to(self.cluster.home("alice"))
        return job, seen(self.cluster, f"/home/alice/{inside}")

    def said(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [f"{ENV_PATH}/bin/jupyter-hpc", *words]
        return self.cluster.run("login1", argv, user="alice", cwd=self.folder, timeout=90)

    def fill(self) -> None:
        """Leave not a byte; a small file may still find a rest, so several times."""
        for number in range(3):
            script = 'cat /dev/zero > "filler$1"'
            self.cluster.run(
                "login1", ["sh", "-c", script, "sh", str(number)], user="alice", cwd=self.folder
            )

    def make_room(self) -> None:
        self.shell(["sh", "-c", "rm -f filler*"])

    def on_node(self, *argv: str) -> str:
        return self.cluster.run("cpu01", argv).stdout


@pytest.fixture
def small(alice: User) -> Iterator[UserOfSmallDisk]:
    user = UserOfSmallDisk(alice.cluster, alice.folder)
    with alice.cluster.homes.small("alice", user.path):
        yield user
        alice.cluster.run("login1", ["scancel", "--user=alice"])
        alice.wait_for_end()
    user.on_node("sh", "-c", "rm -rf /tmp/held /tmp/jupyter-hpc-*")


@pytest.mark.parametrize("quota", [False, True], ids=["full disk", "used-up quota"])
def test_what_has_no_room_is_named_and_the_rest_is_there(alice: User, quota: bool) -> None:
    if quota and shutil.which("mkfs.btrfs") is None:
        pytest.skip("mkfs.btrfs (btrfs-progs) makes the file system with a quota")
    user = UserOfSmallDisk(alice.cluster, alice.folder)
    why = "Disk quota exceeded" if quota else "No space left on device"
    with alice.cluster.homes.small("alice", user.path, quota=quota):
        job, run = user.submitted()
        user.wait_for_end()
        files = run / "output" / "files"
        names = {path.name for path in files.iterdir()}
        assert names == {"MISSING.txt", "small0.txt", "small1.txt", "small2.txt"}, logs(run)
        _, row = (files / "MISSING.txt").read_text().splitlines()
        name, reason, where, state = row.split("\t")
        assert (name, reason, state.split()[0]) == ("large.bin", why, "12000000")
        node, scratch = where.split(":")
        assert node == "cpu01" and f"not copied back: large.bin ({why})" in logs(run)
        assert user.on_node("stat", "-c", "%s", f"{scratch}/large.bin") == "12000000\n"
        user.on_node("rm", "-rf", scratch)
        fetched = user.said("results", job, "-o", f"/tmp/back-{job}")
        assert fetched.returncode == 74 and "6 files in" not in fetched.stderr
        assert f"1 file of job {job} is not back from scratch ({why}); " in fetched.stderr
        listed = user.waiting(lambda: "exit code 74" in (text := user.hpc("jobs")) and text, 30)
        assert "Its log says why, and where they were left." in listed
        assert f"1 file of job {job} is not back from scratch ({why}); " in listed


def test_a_copy_is_tried_again_until_there_is_room(small: UserOfSmallDisk) -> None:
    wait = "import os, time\nwhile not os.path.exists('/tmp/held/full'):\n    time.sleep(0.1)\n"
    small.on_node("mkdir", "-p", "/tmp/held")
    _, run = small.submitted(wait + CELL.replace("12_000_000", "2_000_000"), 1)
    small.waiting(lambda: "staged" in logs(run))
    small.fill()
    small.on_node("mkdir", "/tmp/held/full")
    output = run / "output" / "files"
    small.waiting(lambda: (output / "small0.txt").parent.exists(), 10)  # tried, and found no room
    small.make_room()
    small.waiting(lambda: (output / "large.bin").exists(), 10)  # while the program still runs
    small.on_node("rm", "-r", "/tmp/held")
    small.wait_for_end()
    assert (output / "large.bin").stat().st_size == 2_000_000, logs(run)
    assert (run / "output" / "DONE").exists() and not (output / "MISSING.txt").exists()


def test_without_a_byte_left_all_that_cannot_be_written_is_said(small: UserOfSmallDisk) -> None:
    small.on_node("touch", "/tmp/held")
    job, run = small.submitted()
    small.waiting(lambda: "written" in logs(run))
    small.fill()
    small.on_node("rm", "/tmp/held")
    small.wait_for_end()
    fetched = small.said("results", job, "-o", f"/tmp/back-{job}")
    where = f"Job {job} ended before all of its files were back from scratch; what is missing was "
    where += "left in cpu01:/tmp/jupyter-hpc-"
    assert fetched.returncode == 74 and where in fetched.stderr, (fetched, logs(run))
    listed = small.waiting(lambda: "exit code 74" in (text := small.hpc("jobs")) and text, 30)
    assert where in listed
    refused = small.said("submit", "writer.ipynb", *SMALL)
    assert refused.returncode == 1 and refused.stderr.count("\n") <= 3, refused.stderr
    assert "could not be made: No space left on device.\n" in refused.stderr
    small.make_room()
    # Small enough to be copied into the folder of the run, each by itself.
    small.shell(["sh", "-c", "for n in 1 2 3 4 5; do head -c 900000 /dev/zero > data$n; done"])
    small.notebook("isolated.ipynb", ["print('never shown')"])
    done = json.loads(small.hpc("submit", "isolated.ipynb", *SMALL, "--isolate", "--json"))
    small.wait_for_end()
    own = seen(small.cluster, done["run_dir"])
    assert "the folder of this run could not be made: [Errno 28] No space" in logs(own), logs(own)
    assert "never shown" not in logs(own) and not list((own / "output" / "files").iterdir())
    listed = small.waiting(lambda: "A disk is full: " in (text := small.hpc("jobs")) and text, 30)
    assert "/output/files/data" in listed, listed
