"""Batch commands from the laptop, on the real cluster: over a session and without one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, connected, environment
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)

SMALL = ["--time", "5", "--cpus", "1", "--mem", "500M", "--gpus", "0"]


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "batch")
    fresh.write_profile("mini", {"slurm": {"poll_seconds": 5}})
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A small training that reads a file beside it and writes a result."""
    cells = [
        "EPOCHS = 3\nlr = 0.5",
        "start = float(open('start.txt').read())",
        "import matplotlib.pyplot as plt\nlosses = [start * lr ** e for e in range(EPOCHS)]\n"
        "plt.plot(losses)",
        "open('model.txt', 'w').write(str(losses[-1]))\nprint('last loss', losses[-1])",
    ]
    path = tmp_path / "train me.ipynb"
    _write(path, *cells)
    (tmp_path / "start.txt").write_text("8")
    return path


def _write(path: Path, *cells: str) -> None:
    """A notebook with these code cells."""
    rows = [
        {"cell_type": "code", "id": f"c{number}", "metadata": {}, "outputs": [], "source": text}
        | {"execution_count": None}
        for number, text in enumerate(cells)
    ]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": rows}
    path.write_text(json.dumps(book), encoding="utf-8")


def _hpc(laptop: Laptop, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def _runs(laptop: Laptop, folder: Path, notebook: str, job: str) -> list[dict[str, Any]]:
    """The runs of a job, as `runs` lists them."""
    shown = _hpc(laptop, folder, "runs", notebook, "--on", "mini", "--json")
    assert shown.returncode == 0, shown.stderr
    (runs,) = [each["runs"] for each in json.loads(shown.stdout) if each["job_id"] == job]
    return list(runs)


@pytest.mark.parametrize("session", [False, True], ids=["own login", "over a session"])
def test_submit_wait_log_and_results(
    cluster: Cluster, laptop: Laptop, notebook: Path, session: bool
) -> None:
    folder = notebook.parent
    # So much goes as a file of its own, over the same connection.
    (folder / "given.bin").write_bytes(os.urandom(6_000_000))
    with connected(laptop, "mini") if session else contextlib.nullcontext() as running:
        if running is not None:
            running.wait_for("ready", 120)
        before = cluster.authentications("login1", "alice")
        done = _hpc(
            laptop, folder, "submit", notebook.name, "--on", "mini", *SMALL,
            "--set", "EPOCHS=2", "--stage-in", "given.bin", "--wait",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        job = done.stdout.strip()
        runs = cluster.home("alice") / "jupyter-hpc"
        sent = runs.rglob("inputs/1-given.bin")
        assert {path.stat().st_size for path in sent} == {6_000_000}
        assert not [*runs.rglob("*.tar"), *runs.rglob(".jhpc*")]
        assert job.isdigit()
        log = _hpc(laptop, folder, "log", job, "--on", "mini")
        assert "last loss 4.0" in log.stdout, log.stderr
        fetched = _hpc(laptop, folder, "results", job, "--on", "mini", "-o", "back")
        assert fetched.returncode == 0, fetched.stderr

        def listed() -> set[str]:
            shown = _hpc(laptop, folder, "jobs", "--on", "mini", "--json")
            return {row["id"] for row in json.loads(shown.stdout)}

        found = job in listed()
        (run,) = _runs(laptop, folder, notebook.name, job)
        assert (run["state"], run["parameters"]) == ("done", {"EPOCHS": 2})
        assert run["cost"].endswith("CPU-hours") and run["figures"] == 1
        logins = cluster.authentications("login1", "alice") - before
        assert logins == (0 if session else 5)
        _check_report(cluster, laptop, folder, job)
        eventually(lambda: found or job in listed())  # the database lags behind the queue
    back = {path.name for path in (folder / "back").rglob("*") if path.is_file()}
    assert "cell03_1.png" in back


def _check_report(cluster: Cluster, laptop: Laptop, folder: Path, job: str) -> None:
    """The page is one file, and its numbers are those of accounting."""
    done = _hpc(laptop, folder, "report", job, "--on", "mini")
    assert (done.returncode, done.stdout) == (0, f"report-{job}.html\n"), done.stderr
    text = (folder / f"report-{job}.html").read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>") and "src='data:image/png;base64," in text
    assert "<dt>Cost</dt>" in text and "EPOCHS" in text and "://" not in text
    shown = json.loads(_hpc(laptop, folder, "report", job, "--on", "mini", "--json").stdout)
    fields = "Submit,Start,Elapsedraw,State,NodeList"
    argv = ["sacct", "-X", "-n", "-P", "-j", job, "-o", fields]
    (row,) = cluster.run("login1", argv, user="alice").stdout.splitlines()
    submitted, started, elapsed, state, nodes = row.split("|")
    record = shown["record"]
    assert (str(record["elapsed"]), record["state"], record["nodes"]) == (elapsed, state, nodes)
    waited = datetime.fromisoformat(started) - datetime.fromisoformat(submitted)
    assert record["started"] - record["submitted"] == waited.total_seconds()
    (run,) = shown["runs"]
    assert run["run"]["state"] == "done" and run["pictures"] == ["cell03_1.png"]
    foreign = _hpc(laptop, folder, "report", job, "--on", "mini", "-o", "given.bin")
    assert foreign.returncode == 2 and "is there and is no report" in foreign.stderr


def test_the_end_of_a_job_is_told_by_the_laptop_else_by_the_job(
    cluster: Cluster, laptop: Laptop, notebook: Path
) -> None:
    folder, told = notebook.parent, notebook.parent / "told"
    settings = laptop.home / ".jupyter" / "hpc" / "config.toml"
    script = 'echo "$JUPYTER_HPC_EVENT: $1" >> "$0"'
    words = json.dumps(["sh", "-c", script, str(told)])
    settings.write_text(f"[notify]\ndesktop = false\ncommand = {words}\n", encoding="utf-8")
    submit = ("submit", notebook.name, "--on", "mini", *SMALL, "--notify", "--json")

    def lines() -> list[str]:
        return told.read_text(encoding="utf-8").splitlines() if told.exists() else []

    with connected(laptop, "mini") as running:
        ready = running.wait_for("ready", 120)
        eventually(lambda: len(lines()) == 1)
        job = json.loads(_hpc(laptop, folder, *submit).stdout)["job_id"]
        eventually(lambda: len(lines()) == 2, seconds=90)
    assert lines() == [
        f"ready: JupyterLab is ready. mini: job {ready['job_id']} on {ready['node']}",
        f"job-ended: Job {job} is done. train me.ipynb: It ended well.",
    ]
    # Nobody is connected for a while: the job tells, on its own node.
    lease = "/home/alice/.local/state/jupyter-hpc/watched/.manager"
    cluster.run("login1", ["touch", "-d", "1 hour ago", lease], user="alice", check=True)
    there = "/home/alice/told-by-the-job"
    words = json.dumps(["sh", "-c", script, there])
    settings.write_text(f"[notify]\ncommand = {words}\n", encoding="utf-8")
    done = json.loads(_hpc(laptop, folder, *submit).stdout)

    def by_the_job() -> str:
        return cluster.run("login1", ["cat", there]).stdout

    eventually(lambda: f"Job {done['job_id']} is done" in by_the_job(), seconds=90)
    assert len(lines()) == 2


def test_a_dry_run_changes_nothing(cluster: Cluster, laptop: Laptop, notebook: Path) -> None:
    shown = _hpc(
        laptop, notebook.parent, "submit", notebook.name, "--on", "mini", *SMALL, "--dry-run"
    )
    assert shown.returncode == 0, shown.stderr
    assert "#SBATCH --time=5" in shown.stdout
    assert "Estimated start" in shown.stderr
    assert cluster.jobs() == []


def test_refusals_have_their_own_codes(laptop: Laptop, notebook: Path) -> None:
    folder = notebook.parent
    wrong = _hpc(
        laptop, folder, "submit", notebook.name, "--on", "mini", *SMALL, "--partition", "nosuch"
    )
    assert wrong.returncode == 4
    assert "partition" in wrong.stderr
    _write(folder / "odd.ipynb", "%unheard_of x")
    odd = _hpc(laptop, folder, "submit", "odd.ipynb", "--on", "mini", *SMALL)
    assert odd.returncode == 3
    assert "cell 1" in odd.stderr
    assert _hpc(laptop, folder, "convert", "odd.ipynb").returncode == 3
    assert not (folder / "hpc-batch").exists()
    gone = _hpc(laptop, folder, "submit", "missing.ipynb", "--on", "mini", *SMALL)
    assert gone.returncode == 2


def test_a_job_is_cancelled_by_its_id(cluster: Cluster, laptop: Laptop, tmp_path: Path) -> None:
    _write(tmp_path / "long.ipynb", "import time\ntime.sleep(600)")
    done = _hpc(laptop, tmp_path, "submit", "long.ipynb", "--on", "mini", *SMALL, "--json")
    job = json.loads(done.stdout)["job_id"]
    assert os.path.basename(json.loads(done.stdout)["run_dir"])
    cancelled = _hpc(laptop, tmp_path, "cancel", job, "--on", "mini")
    assert cancelled.returncode == 0, cancelled.stderr
    again = _hpc(laptop, tmp_path, "cancel", "99999", "--on", "mini")
    assert again.returncode == 1
    assert "99999" in again.stderr


def test_a_task_that_does_not_exist_is_not_said_to_be_cancelled(
    laptop: Laptop, tmp_path: Path
) -> None:
    _write(tmp_path / "long.ipynb", "n = 1", "import time\ntime.sleep(600 * n)")
    words = ["submit", "long.ipynb", "--on", "mini", *SMALL, "--sweep", "n=1,2,3"]
    job = _hpc(laptop, tmp_path, *words, "--at-once", "1").stdout.strip()
    wrong = _hpc(laptop, tmp_path, "cancel", f"{job}_9", "--on", "mini")
    assert wrong.returncode == 1 and f"{job}_9" in wrong.stderr
    running = ["running", "waiting", "waiting"]
    eventually(
        lambda: [run["state"] for run in _runs(laptop, tmp_path, "long.ipynb", job)] == running
    )
    waiting = _hpc(laptop, tmp_path, "cancel", f"{job}_3", job, "--on", "mini")
    assert waiting.returncode == 0, waiting.stderr
    eventually(
        lambda: (
            {run["state"] for run in _runs(laptop, tmp_path, "long.ipynb", job)}
            <= {"cancelled", "stopped"}
        )
    )
    table = _hpc(laptop, tmp_path, "runs", "--on", "mini")
    assert "sweep of 3" in table.stdout and f"{job}_2" in table.stdout, table.stdout


def test_a_log_is_followed_from_before_the_start(laptop: Laptop, tmp_path: Path) -> None:
    _write(tmp_path / "short.ipynb", "print('it runs')")
    words = ["submit", "short.ipynb", "--on", "mini", *SMALL, "--chain", "2"]
    job = _hpc(laptop, tmp_path, *words, "--option=--begin=now+10").stdout.strip()
    followed = _hpc(laptop, tmp_path, "log", "-f", job, "--on", "mini")
    assert followed.returncode == 0, followed.stderr
    assert "it runs" in followed.stdout and job in followed.stderr
