"""Sweeps of one notebook that are submitted in one moment: nothing of them mixes."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.batch.notebooks import notebook
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.real.sessions import command, environment
from tests.node.on_cluster import NodeServer, node_server
from tests.waiting import eventually

CELLS = [
    "lr = 0.1",
    "import json, os, time\nopen('weights.txt', 'a').write(f'{lr}\\n')\ntime.sleep(1)\n"
    "open('seen.json', 'w').write(json.dumps([lr, open('start.txt').read(), os.listdir('.')]))\n"
    "print('score:', lr)",
]
SMALL = ["--time", "5", "--cpus", "1", "--mem", "300M", "--gpus", "0"]


@pytest.fixture
def button(cluster: Cluster, tmp_path: Path) -> Iterator[NodeServer]:
    with node_server(cluster, tmp_path) as server:
        yield server
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()


def _project(folder: Path, start: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "train.ipynb").write_text(json.dumps(notebook(CELLS)), encoding="utf-8")
    (folder / "start.txt").write_text(start, encoding="utf-8")
    (folder / "weights.txt").write_text("mine\n", encoding="utf-8")
    return folder


@pytest.mark.timeout(240)
def test_sweeps_from_two_laptops_and_the_button_at_once(
    cluster: Cluster, button: NodeServer, tmp_path: Path
) -> None:
    alice = user_named("alice")
    there = _project(cluster.home("alice") / "at once", "by the button")
    for path in (there, *there.iterdir()):
        path.chmod(0o700)
    subprocess.run(["chown", "-R", f"{alice.uid}:{alice.uid}", str(there)], check=True)

    def by_laptop(name: str, rates: str) -> str:
        laptop: Laptop = cluster.laptop("alice", name)
        laptop.write_profile("mini", {"slurm": {"poll_seconds": 5}})
        folder = _project(tmp_path / name, name)
        done = subprocess.run(
            command("submit", "train.ipynb", "--on", "mini", *SMALL, "--sweep", rates, "--json"),
            cwd=folder, env=environment(laptop), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (folder / "weights.txt").read_text() == "mine\n"
        return str(json.loads(done.stdout)["run_dir"])

    def by_button(rates: str) -> str:
        request = {"partition": "cpu", "time": "5", "cpus": 1, "memory": "300M", "gpus": 0}
        body = {"path": "at once/train.ipynb", "request": request, "parameters": {"lr": rates}}
        status, done = button.ask("submit", "POST", body=body)
        assert status == 200, done
        return str(done["run_dir"])

    with ThreadPoolExecutor() as pool:
        asked = {
            "one": pool.submit(by_laptop, "one", "lr=1,2,3"),
            "two": pool.submit(by_laptop, "two", "lr=4,5,6"),
            "by the button": pool.submit(by_button, "7,8,9"),
            "again by the button": pool.submit(by_button, "10,11,12"),
        }
        folders = {name: task.result() for name, task in asked.items()}
    assert len({*folders.values()}) == 4
    runs = {
        name: cluster.home("alice") / folder.removeprefix("/home/alice/")
        for name, folder in folders.items()
    }

    def ended(run: Path) -> bool:
        table = run / "output" / "runs.csv"
        return table.exists() and table.read_text().count(",done,") == 3

    eventually(
        lambda: all(map(ended, runs.values())),
        lambda: cluster.run("login1", ["squeue"]).stdout,
        seconds=150,
    )
    for number, (name, run) in enumerate(runs.items()):
        start = name.removeprefix("again ")
        for task in (1, 2, 3):
            rate = number * 3 + task
            files = run / "output" / str(task) / "files"
            assert (files / "weights.txt").read_text() == f"mine\n{rate}.0\n", run
            seen, given, around = json.loads((files / "seen.json").read_text())
            assert (seen, given) == (rate, start)
            assert {*around} <= {"seen.json", "start.txt", "weights.txt", "train.ipynb"}
        with (run / "output" / "runs.csv").open(newline="") as file:
            table = [*csv.DictReader(file)]
        assert [float(row["score"]) for row in table] == [number * 3 + task for task in (1, 2, 3)]
    assert (there / "weights.txt").read_text() == "mine\n"
