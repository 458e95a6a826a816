"""A cluster of one release and a laptop in front of it, with the product's command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.batch.notebooks import notebook
from tests.cluster.cluster import Cluster
from tests.connect.real.sessions import command, environment

SMALL = ("--time", "5", "--cpus", "1", "--mem", "500M", "--gpus", "0")


class Desk:
    """alice's laptop with a folder of notebooks; everything runs with --on mini."""

    def __init__(self, cluster: Cluster, folder: Path, **profile: dict[str, Any]) -> None:
        self.cluster, self.folder = cluster, folder
        self.laptop = cluster.laptop("alice", "matrix")
        self.laptop.write_profile("mini", {"slurm": {"poll_seconds": 5}, **profile})

    def hpc(self, *words: str, check: bool = True) -> str:
        """One command of jupyter-hpc; its output, with the errors of one that may fail."""
        done = subprocess.run(
            command(*words, "--on", "mini"),
            cwd=self.folder,
            env=environment(self.laptop),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout if check else done.stdout + done.stderr

    def submit(self, name: str, cells: Sequence[str], *words: str) -> str:
        """Submit a notebook with these cells; the job's id."""
        path = self.folder / f"{name}.ipynb"
        path.write_text(json.dumps(notebook(list(cells))), encoding="utf-8")
        return self.hpc("submit", path.name, *words).strip()

    def results(self, job: str) -> Path:
        """The folder with what the job brought back."""
        back = self.folder / f"back-{job}"
        self.hpc("results", job, "-o", str(back))
        return back

    def clear(self) -> None:
        """End all jobs."""
        self.cluster.run("login1", ["scancel", "--user=alice"])
        self.cluster.wait_until_idle()


def texts(folder: Path, name: str) -> list[str]:
    """The contents of all files of that name, sorted."""
    return sorted(path.read_text(encoding="utf-8") for path in folder.rglob(name))
