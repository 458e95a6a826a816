"""Jobs of a folder in which others may write, on a real Slurm: each keeps its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.batch.notebooks import notebook
from tests.batch.test_on_slurm import SMALL, User, alice
from tests.cluster.cluster import Cluster
from tests.cluster.layout import ENV_PATH

__all__ = ["alice"]

SHARED = "/home/shared"


@pytest.fixture
def shared(cluster: Cluster, alice: User) -> Iterator[str]:
    book = json.dumps(notebook(["import getpass\nopen('who.txt', 'w').write(getpass.getuser())"]))
    script = 'mkdir -p "$1" && chmod 777 "$1" && cat > "$1/train.ipynb" && chmod 666 "$1"/*'
    cluster.run("login1", ["sh", "-c", script, "sh", SHARED], input=book, check=True)
    yield SHARED
    cluster.run("login1", ["scancel", "--user=mallory"])
    alice.wait_for_end()
    cluster.run("login1", ["rm", "-rf", SHARED])


def _as(cluster: Cluster, user: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return cluster.run("login1", argv, user=user, cwd=SHARED, timeout=90)


def _submitted(cluster: Cluster, user: str, *words: str) -> dict[str, str]:
    program = f"{ENV_PATH}/bin/jupyter-hpc"
    done = _as(cluster, user, program, "submit", "train.ipynb", *SMALL, "--json", *words)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_two_users_submit_from_one_folder_and_neither_touches_the_others_run(
    shared: str, alice: User
) -> None:
    cluster = alice.cluster
    first = _submitted(cluster, "alice", "--isolate")
    second = _submitted(cluster, "mallory", "--isolate")
    alice.wait_for_end()
    for user, other, run in (("alice", "mallory", first), ("mallory", "alice", second)):
        folder = run["run_dir"]
        assert _as(cluster, user, "cat", f"{folder}/output/files/who.txt").stdout == user
        assert _as(cluster, other, "ls", folder).returncode != 0
    # Whoever was the first has made the folders around, and could; the job looks before it runs.
    for folder in (first["run_dir"], f"{shared}/hpc-batch/train/runs", f"{shared}/hpc-batch/train"):
        assert _as(cluster, "mallory", "mv", folder, f"{folder}-away").returncode != 0, folder


def test_a_run_folder_that_was_swapped_is_not_run(shared: str, alice: User) -> None:
    """Who may write into the notebook's folder itself can move all that is in it."""
    cluster = alice.cluster
    done = _submitted(cluster, "alice", "--isolate", "--option=--hold")
    run = done["run_dir"]
    swap = (
        'mv hpc-batch away && mkdir -p "$1/logs" "$1/output" && chmod -R 777 hpc-batch && '
        'for name in train.py jupyter_hpc_job.py; do echo "$2" > "$1/$name"; done'
    )
    theirs = f"open('{shared}/owned', 'w').write('owned')"
    assert _as(cluster, "mallory", "sh", "-c", swap, "sh", run, theirs).returncode == 0
    cluster.run("login1", ["scontrol", "release", done["job_id"]], user="alice", check=True)
    alice.wait_for_end()
    assert _as(cluster, "alice", "ls", f"{shared}/owned").returncode != 0
    log = _as(cluster, "alice", "cat", f"{run}/logs/{done['job_id']}.out").stdout
    assert f"{run} is not the folder of this job; nothing runs in it" in log
