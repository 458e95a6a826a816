"""Trainings with the kit on a real Slurm: whatever ends a part, the whole is the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.batch.test_full_disk_on_slurm import UserOfSmallDisk, seen
from tests.batch.test_on_slurm import SMALL, User, alice, logs
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.layout import ENV_PATH, user_named
from tests.tools import ROOT
from tests.training.conftest import torch
from tests.training.site import torch_site

__all__ = ["alice", "torch"]

PROGRAM = Path(__file__).with_name("kit_training.py")
#: What scancel and scontrol answer of a job that has ended meanwhile (2021, of which a code has
#: eight bits).
ALREADY_DONE = 2021 % 256


class Training:
    """A job of PROGRAM, and what it left."""

    def __init__(self, user: User, *words: str, **variables: str) -> None:
        self.user, home = user, user.cluster.home("alice")
        site = home / "kit-site"
        if not site.exists():  # without a copy, where that can be
            cached = str(torch_site("/usr/bin/python3").resolve())
            if subprocess.run(["cp", "-al", cached, str(site)], capture_output=True).returncode:
                subprocess.run(["cp", "-a", cached, str(site)], check=True)
        name = f"train{random.randrange(10**6)}.py"
        user.write(name, PROGRAM.read_text(encoding="utf-8"))
        settings = [f"{key}={value}" for key, value in variables.items()]
        settings.append("PYTHONPATH=/home/alice/kit-site")
        argv = ["env", *settings, f"{ENV_PATH}/bin/jupyter-hpc", "submit", name, *words, "--json"]
        done = json.loads(user.shell(argv))
        self.job = done["job_id"]
        self.run = seen(user.cluster, done["run_dir"])

    @property
    def begins(self) -> list[int]:
        """The steps at which its parts began."""
        found = re.findall(r"^part begins at step (\d+)", self.text, re.M)
        return [int(step) for step in found]

    @property
    def text(self) -> str:
        """What its parts have said, in their order."""
        files = (self.run / "logs").glob("*.out")
        in_order = sorted(files, key=lambda path: [int(n) for n in re.findall(r"\d+", path.stem)])
        return "\n".join(path.read_text(encoding="utf-8") for path in in_order)

    @property
    def checkpoints(self) -> list[str]:
        """Names of what could be gone on with, the newest first."""
        found = (self.run / "checkpoints").glob("step-*.json")
        return sorted((path.stem for path in found), reverse=True)

    @property
    def running(self) -> str:
        """The part that runs now, if one does."""
        asked = ["squeue", "--noheader", "--states=RUNNING", "--format=%i", f"--jobs={self.job}"]
        return self.user.cluster.run("login1", asked).stdout.strip()

    @property
    def is_done(self) -> bool:
        return (self.run / "output" / "DONE").exists()

    def wait_until_it_saves(self, after: int) -> str:
        """Until a further part than these has left a checkpoint of its own; its number."""

        def saved() -> bool:
            begins = self.begins
            newest = self.checkpoints[:1]
            return self.is_done or (
                len(begins) > after and bool(newest) and int(newest[0][5:14]) > begins[-1]
            )

        self.user.waiting(saved, 150)
        return self.running

    def command(self, *argv: str) -> bool:
        """Do something to a part; whether it was still there."""
        done = self.user.cluster.run("login1", argv, user="alice")
        assert done.returncode in (0, ALREADY_DONE), done
        return done.returncode == 0

    def result(self, rank: int = 0) -> Any:
        file = self.run / "output" / f"result-{rank}.json"
        assert file.exists(), logs(self.run)[-6000:]
        return json.loads(file.read_text(encoding="utf-8"))


def uninterrupted(folder: Path, **variables: str) -> Any:
    """What the same program reaches when nobody ends it, on this machine."""
    own = {"JUPYTER_HPC_CHECKPOINTS": str(folder / "run"), "JUPYTER_HPC_OUTPUT": str(folder)}
    paths = os.pathsep.join([str(torch_site().resolve()), str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], timeout=300, capture_output=True, text=True,
        env={**kept, **own, **variables, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "result-0.json").read_text(encoding="utf-8"))


def same(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Order of the samples, losses, parameters and optimizer, bit for bit."""
    assert [order for order, _ in first["seen"]] == [order for order, _ in second["seen"]]
    for name in ("seen", "weights", "optimizer", "values"):
        assert first[name] == second[name], name


@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(400)
def test_a_chain_that_is_ended_equals_a_run_that_is_not(alice: User, tmp_path: Path) -> None:
    training = Training(alice, *_small(), "--chain", "4", PAUSE="0.2")
    part = training.wait_until_it_saves(0)
    training.command("scancel", "--signal=USR1", "--batch", part)
    alice.waiting(lambda: len(training.begins) == 2 or training.is_done, 120)
    alice.wait_for_end(120)
    same(training.result(), uninterrupted(tmp_path))
    first, second = training.begins
    assert first == 0 < second, logs(training.run)
    assert not list((training.run / "logs").glob("*_3.out")), "the tail is cancelled"
    assert training.is_done
    metrics = json.loads((training.run / "output" / "metrics.json").read_text())
    assert metrics["step"] == 96 and "loss" in metrics


#: Twenty ends. What a part has not saved when it is killed, the next one does again.
ENDS = ["USR1", "TERM", "scancel", "KILL"] * 4 + ["time limit"] * 2 + ["node lost"] * 2


@pytest.mark.faults
@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(1500)
def test_a_chain_that_is_ended_twenty_times(alice: User, tmp_path: Path) -> None:
    seed = int(os.environ.get("JUPYTER_HPC_SEED", random.randrange(10**6)))
    draw = random.Random(seed)
    ends = draw.sample(ENDS, len(ENDS))
    damaged = draw.choice([n for n, how in enumerate(ends) if how in ("USR1", "TERM")])
    print("seed", seed, "damaged after", damaged, ends)
    sizes = {"EPOCHS": "70", "ROWS": "320", "EVERY": "0.5"}  # 2800 steps of 50 ms
    training = Training(alice, *_small(), "--chain", "40", PAUSE="0.05", **sizes)
    parts = 0
    for number, how in enumerate(ends):
        part = training.wait_until_it_saves(parts)
        assert not training.is_done, "it was too short for this machine"
        time.sleep(draw.uniform(0, 1.5))
        parts = len(training.begins)
        later = f"{training.job}_[{int(part.partition('_')[2]) + 1}-40]"
        if number == damaged:
            assert training.command("scontrol", "hold", later)
        _end(training, part, how)
        if number == damaged:
            alice.waiting(lambda: not training.running, 60)
            newest = training.run / "checkpoints" / f"{training.checkpoints[0]}.pt"
            data = bytearray(newest.read_bytes())
            data[len(data) // 2] ^= 1
            newest.write_bytes(data)
            training.command("scontrol", "release", later)
    alice.wait_for_end(240)
    text = training.text
    same(training.result(), uninterrupted(tmp_path, **sizes))
    shown = re.findall(
        r"^.*(?:on cpu01, restarted|begins at|passes over|CANCELLED|with code).*", text, re.M
    )
    # A node that comes back may end a part once more.
    assert len(training.begins) >= 21, "\n".join(shown)
    assert text.count("passes over the checkpoint") == 1, "\n".join(shown)
    last = max(int(path.stem.partition("_")[2]) for path in (training.run / "logs").glob("*.out"))
    assert last <= len(training.begins), "the tail is cancelled"
    assert "the later ones, up to part 40, were cancelled" in text and training.is_done
    left = training.run / "checkpoints"
    assert len(list(left.glob("step-*.pt"))) <= 3 and not list(left.glob(".run/*.drafts/*"))
    assert json.loads((left / ".run" / "owner").read_text(encoding="utf-8"))["ended"]


def _end(training: Training, part: str, how: str) -> None:
    """End a part, on the cluster as it would be; its last steps may run for a moment."""
    if how in ("USR1", "TERM"):
        training.command("scancel", f"--signal={how}", "--batch", part)
    elif how == "scancel":
        training.command("scancel", part)
    elif how == "KILL":  # by Slurm it would be TERM first
        training.user.cluster.end_processes()
    elif how == "time limit":
        # Slurm warns at its next look, and the part has more than enough time to end.
        training.user.cluster.run(
            "login1", ["scontrol", "update", f"JobId={part}", "TimeLimit=2"], check=True
        )
    else:
        with lost_node(training.user.cluster):
            pass


@contextlib.contextmanager
def lost_node(cluster: Any, node: str = "cpu01") -> Iterator[None]:
    """A node that loses power, is given up by Slurm, and comes back."""
    cluster.crash(node)
    # What Slurm does by itself once the node has been silent for SlurmdTimeout.
    down = ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=gone"]
    cluster.run("login1", down, check=True)
    yield
    cluster.restore(node)
    for host, daemon in cluster.daemons():
        if host == node and cluster.hosts[host].daemon(daemon) is None:
            cluster.start(host, daemon)
    # Fails if it is well by itself already.
    cluster.run("login1", ["scontrol", "update", f"NodeName={node}", "State=RESUME"])


@pytest.mark.faults
@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(600)
def test_a_cancelled_chain_stays_cancelled(alice: User) -> None:
    training = Training(alice, *_small(), "--chain", "4", PAUSE="0.2")
    training.wait_until_it_saves(0)
    training.command("scancel", training.job)
    alice.wait_for_end(60)
    assert len(training.begins) == 1 and not training.is_done
    text = logs(training.run)
    assert "told to end" in text and "the time is short: saved at epoch" in text, text
    assert not list((training.run / "logs").glob("*_2.out"))


@pytest.mark.faults
@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(600)
def test_one_of_two_nodes_owns_the_folder(alice: User, tmp_path: Path) -> None:
    settings = {"FOLDER": f"{alice.folder}/shared", "EPOCHS": "6"}
    cluster, gpu = alice.cluster, ["--partition", "gpu"]
    first = Training(alice, *_small(), PAUSE="0.2", **settings)
    alice.waiting(lambda: len(list((alice.path / "shared").glob("step-*.json"))) == 2, 120)
    refused = Training(alice, *_small(), *gpu, **settings)
    said = f"Job {first.job} on cpu01 trains into {settings['FOLDER']}"
    alice.waiting(lambda: said in refused.text, 90)
    own = [
        each.pid
        for each in cluster.hosts["cpu01"].processes()
        if each.uid == user_named("alice").uid
    ]
    try:
        for pid in own:
            os.kill(pid, signal.SIGSTOP)
        second = Training(alice, *_small(), *gpu, **settings)
        alice.waiting(lambda: second.is_done, 150)
    finally:
        for pid in own:
            os.kill(pid, signal.SIGCONT)
    alice.wait_for_end(60)
    assert f"whether Job {first.job} on cpu01 still trains into" in second.text
    assert f"Job {second.job} on gpu01 has taken" in first.text and not first.is_done
    assert (alice.path / "shared" / "DONE").exists()
    same(second.result(), uninterrupted(tmp_path, EPOCHS="6"))


@pytest.mark.faults
@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(600)
def test_a_full_disk_costs_no_checkpoint_that_was_there(alice: User, tmp_path: Path) -> None:
    user = UserOfSmallDisk(alice.cluster, alice.folder)
    sizes = {"EPOCHS": "10", "ROWS": "320"}
    with alice.cluster.homes.small("alice", user.path):
        training = Training(user, *_small(), "--chain", "5", PAUSE="0.05", **sizes)
        part = training.wait_until_it_saves(0)
        user.fill()
        held = training.checkpoints
        user.waiting(lambda: _unchanged(lambda: training.checkpoints, 1.5), 60)
        assert held[0] in training.checkpoints or training.checkpoints > held
        kept = training.checkpoints
        training.command("scancel", "--signal=USR1", "--batch", part)
        user.waiting(lambda: training.running not in ("", part), 120)
        assert training.checkpoints == kept, "whole, and what the next part goes on from"
        user.make_room()
        alice.wait_for_end(240)
        same(training.result(), uninterrupted(tmp_path, **sizes))
        assert training.is_done and not list(training.run.rglob("*.drafts"))


def _unchanged(look: Callable[[], Any], seconds: float) -> bool:
    """Whether something is the same after a while."""
    before = look()
    time.sleep(seconds)
    return bool(look() == before)


@pytest.fixture(scope="module")
def wide(cluster_with: ClusterFactory) -> Iterator[User]:
    cluster = cluster_with(accounting=False, two_gpu_nodes=True)
    yield User(cluster, "/home/alice/tasks")
    cluster.run("login1", ["scancel", "--user=alice"])


#: Simulated GPUs are none for torch, and the look at them before the program says so.
LAYOUT = ["--partition", "wide", "--tasks-per-node", "2", "--gpus", "0", "--time", "5"]
LAYOUT += ["--cpus", "1", "--mem", "4G"]
FOUR = ["--nodes", "2", *LAYOUT]


@pytest.mark.faults
@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(900)
def test_four_tasks_on_two_nodes_are_ended_and_go_on(wide: User, tmp_path: Path) -> None:
    """Two such jobs on the same nodes at once; each equals one process, but for rounding."""
    settings = {"PLAIN": "1", "EPOCHS": "4"}
    trainings = [Training(wide, *FOUR, "--chain", "6", PAUSE="0.1", **settings) for _ in range(2)]
    kinds = ["USR1", "scancel", "KILL"]
    for number, how in enumerate(kinds):
        parts = [training.wait_until_it_saves(4 * number) for training in trainings]
        for training, part in zip(trainings, parts, strict=True):
            if how != "KILL" or training is trainings[0]:  # which ends both
                _end(training, part, how)
    wide.wait_for_end(300)
    alone = uninterrupted(tmp_path, **settings)
    for training in trainings:
        text = logs(training.run)
        assert len(training.begins) == 4 * (len(kinds) + 1), text[-4000:]
        assert len({tuple(training.begins[n : n + 4]) for n in range(0, 16, 4)}) == 4
        results = [training.result(rank) for rank in range(4)]
        assert len({result["weights"] for result in results}) == 1
        assert results[0]["values"] == pytest.approx(alone["values"], abs=1e-5)
        for step, (order, loss) in enumerate(alone["seen"]):
            shares = [result["seen"][step] for result in results]
            assert sorted(row for share, _ in shares for row in share) == sorted(order)
            assert sum(own for _, own in shares) / 4 == pytest.approx(loss, abs=1e-5)
        assert training.is_done


@pytest.mark.faults
@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(600)
def test_what_four_ranks_have_saved_two_go_on_with(wide: User) -> None:
    settings = {"PLAIN": "1", "SHARDED": "1", "FOLDER": f"{wide.folder}/sharded"}
    four = Training(wide, *FOUR, EPOCHS="1", **settings)
    wide.wait_for_end(180)
    two = Training(wide, "--nodes", "2", "--tasks-per-node", "1", *LAYOUT[4:], *LAYOUT[:2],
                   EPOCHS="2", **settings)  # fmt: skip
    wide.wait_for_end(180)
    saved, gone_on = four.result(), two.result()
    assert gone_on["before"] == saved["values"] and gone_on["values"] != saved["values"]
    assert "was saved by 4 processes and goes on with 2" in logs(two.run)
    assert two.begins == [32, 32]


def _small(memory: str = "1500M") -> list[str]:
    words = list(SMALL)
    words[words.index("--mem") + 1] = memory
    return words
