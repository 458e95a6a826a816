"""Scripts as steps of one job, from the laptop on the real cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, environment

pytestmark = pytest.mark.timeout(300)

SMALL = ["--partition", "cpu", "--time", "5", "--cpus", "1", "--mem", "500M", "--gpus", "0"]

TRAIN = """
import argparse, os, model
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=1)
given = parser.parse_args()
rows = open("data/rows.txt").read().split()
open("weights.txt", "w").write(f"{model.NAME} {given.lr} {given.epochs} {len(rows)}")
print("trained in", os.getcwd(), "rank", os.environ["RANK"])
"""
PREDICT = "open('predictions.txt', 'w').write('of ' + open('weights.txt').read())\n"
CLEAN = "rm weights.txt\nls\n"


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "scripts")
    fresh.write_profile("mini")
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()


def test_train_predict_and_clean_up_are_one_job(
    cluster: Cluster, laptop: Laptop, tmp_path: Path
) -> None:
    files = {"train.py": TRAIN, "predict.py": PREDICT, "clean.sh": CLEAN, "model.py": "NAME = 'm'"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.txt").write_text("a b c")

    def hpc(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*words, "--on", "mini"),
            cwd=tmp_path,
            env=environment(laptop),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    steps = ["train.py --epochs 2", "predict.py", "clean.sh"]
    done = hpc("submit", *steps, *SMALL, "--set", "lr=0.5", "--stage-in", "data", "--wait")
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    log = hpc("log", job).stdout
    assert "rank 0" in log and "step 3 of 3: clean.sh" in log, log
    assert "trained in /tmp/" in log, "on the disk of the node"
    assert hpc("results", job, "-o", "back").returncode == 0
    back = {path.name: path for path in (tmp_path / "back").rglob("*") if path.is_file()}
    assert back["predictions.txt"].read_text() == "of m 0.5 2 3", log
    assert "weights.txt" not in back

    # Without staging a sweep of scripts keeps its runs apart, and another job waits for it.
    swept = hpc(
        "submit", "train.py", "predict.py", *SMALL, "--sweep", "lr=1,2", "--stage-in", "data"
    )
    assert swept.returncode == 0, swept.stderr
    first = swept.stdout.strip()
    (tmp_path / "fail.py").write_text("raise SystemExit(3)\n")
    after = hpc("submit", "fail.py", *SMALL, "--after", first, "--wait")
    assert after.returncode == 3, after.stderr
    assert hpc("results", first, "-o", "swept").returncode == 0
    found = sorted((tmp_path / "swept").rglob("predictions.txt"))
    assert [path.read_text() for path in found] == ["of m 1.0 1 3", "of m 2.0 1 3"]

    never = hpc("submit", "fail.py", *SMALL, "--after", after.stdout.strip())
    assert never.returncode == 0, never.stderr
    waiting = never.stdout.strip()
    shown = hpc("jobs").stdout
    assert f"{waiting}  fail  PENDING" in shown and "epend" in shown, shown
