"""Trainings with the kit on a real Slurm: whatever ends a part, the whole is the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.batch.test_on_slurm import SMALL, User, alice, logs
from tests.cluster.layout import ENV_PATH
from tests.tools import ROOT
from tests.training.conftest import torch
from tests.training.site import torch_site

__all__ = ["alice", "torch"]

PROGRAM = Path(__file__).with_name("kit_training.py")


class Training:
    """A job of PROGRAM, and what it left."""

    def __init__(self, user: User, *words: str, **variables: str) -> None:
        self.user = user
        site = user.path / "site"
        if not site.exists():  # without a copy, where that can be
            cached = str(torch_site("/usr/bin/python3").resolve())
            if subprocess.run(["cp", "-al", cached, str(site)], capture_output=True).returncode:
                subprocess.run(["cp", "-a", cached, str(site)], check=True)
        name = f"train{len(list(user.path.glob('train*.py')))}.py"
        user.write(name, PROGRAM.read_text(encoding="utf-8"))
        settings = [f"{key}={value}" for key, value in variables.items()]
        settings.append(f"PYTHONPATH={user.folder}/site")
        argv = ["env", *settings, f"{ENV_PATH}/bin/jupyter-hpc", "submit", name, *words, "--json"]
        done = json.loads(user.shell(argv))
        self.job = done["job_id"]
        folder = Path(done["run_dir"]).relative_to("/home/alice")
        self.run = user.cluster.home("alice") / folder

    @property
    def begins(self) -> list[int]:
        """The steps at which its parts began."""
        found = re.findall(r"^part begins at step (\d+)", logs(self.run), re.M)
        return [int(step) for step in found]

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


@pytest.mark.usefixtures("torch")
@pytest.mark.timeout(400)
def test_a_chain_that_is_ended_equals_a_run_that_is_not(alice: User, tmp_path: Path) -> None:
    training = Training(alice, *_small(), "--chain", "4", PAUSE="0.2")
    alice.waiting(lambda: len(training.begins) == 1, 120)
    job = alice.waiting(lambda: _running(alice), 60)
    # It fails where the job has ended by the time that it looks again.
    alice.cluster.run("login1", ["scancel", "--signal=USR1", "--batch", job])
    alice.waiting(lambda: len(training.begins) == 2 or _done(training), 120)
    alice.wait_for_end(120)
    assert training.result() == uninterrupted(tmp_path)
    first, second = training.begins
    assert first == 0 < second, logs(training.run)
    assert not list((training.run / "logs").glob("*_3.out")), "the tail is cancelled"
    assert (training.run / "output" / "DONE").exists()
    metrics = json.loads((training.run / "output" / "metrics.json").read_text())
    assert metrics["step"] == 96 and "loss" in metrics


def _small(memory: str = "1500M") -> list[str]:
    words = list(SMALL)
    words[words.index("--mem") + 1] = memory
    return words


def _done(training: Training) -> bool:
    return (training.run / "output" / "DONE").exists()


def _running(user: User) -> str:
    """The plain number of the part that runs."""
    asked = ["squeue", "--noheader", "--states=RUNNING", "--format=%A"]
    return user.cluster.run("login1", asked).stdout.strip()
