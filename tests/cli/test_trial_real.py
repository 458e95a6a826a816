"""`submit --trial` from the laptop, on the real cluster: a short job that measures and is gone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.notebooks import write_notebook
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, connected, environment, pids
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)

SMALL = ["--cpus", "1", "--gpus", "0", "--partition", "cpu"]
EPOCHS = [
    "epochs = 40",
    "import time, helper\nstart = open('start.txt').read()\nfor epoch in range(epochs):\n"
    "    time.sleep(0.3)\n    print('epoch', epoch, helper.word, start, flush=True)",
]


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "batch")
    fresh.write_profile(
        "mini",
        {
            "slurm": {"poll_seconds": 2},
            "allocation": {"partition": "cpu", "gpus": 0},
            "presets.trial": {"time": "00:08:00"},
            "budget": {"unit": "credits"},
            "budget.rates": {"cpu_hour": 1},
        },
    )
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("word = 'helped'\n")
    (tmp_path / "start.txt").write_text("8")
    return tmp_path


def submit(laptop: Laptop, folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("submit", "a.ipynb", "--on", "mini", *SMALL, "--trial", *words),
        cwd=folder,
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=150)
    finally:
        process.kill()
    return process.returncode, out, err


def nothing_is_left(cluster: Cluster) -> bool:
    """No trial waits or runs, and no folder of one is there."""
    queue = cluster.run("login1", ["squeue", "--user=alice", "--noheader", "--format=%T %j"])
    left = [line for line in queue.stdout.splitlines() if "-trial" in line]
    assert not [line for line in left if not line.startswith("COMPLETING")], left
    return not [*(cluster.home("alice") / "jupyter-hpc").glob("a/*/scripts/jupyter_hpc_trial.py")]


def test_a_short_job_fills_time_memory_and_the_job_follows(
    cluster: Cluster, laptop: Laptop, folder: Path
) -> None:
    write_notebook(folder / "a.ipynb", EPOCHS)
    code, script, said = done(submit(laptop, folder, "12 epochs", "--dry-run"))
    assert code == 0, said
    (job,) = re.findall(r"Job (\d+) tries it in partition cpu: 00:08:00 at most", said)
    assert "It costs at most 0.133 credits" in said or "It costs at most" in said
    for words in ("Trying 12 of 40 epochs", "Run 2 of 2, with 12 epochs", "Trial: 12 epochs in"):
        assert words in said, said
    assert "#SBATCH --time=00:05:00" in script and "#SBATCH --mem=1G" in script
    assert "trial" not in script.split("#SBATCH")[1]
    assert nothing_is_left(cluster)
    code, number, said = done(submit(laptop, folder, "1 epoch", "--set", "epochs=2", "--wait"))
    assert code == 0, said
    assert int(number) > int(job) + 1 and nothing_is_left(cluster)
    shown = subprocess.run(
        command("runs", "a.ipynb", "--on", "mini", "--json"),
        env=environment(laptop), capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    listed = [each["job_id"] for each in json.loads(shown)]
    assert number.strip() in listed and job not in listed


@pytest.mark.parametrize(
    ("cell", "words", "why"),
    [
        ("raise ValueError('no data')", ["2 epochs"], "Cell 2 ended with ValueError: no data."),
        ("held = bytearray(3 * 10**9)", ["2 epochs"], "Ask for more with --mem"),
        ("import time; time.sleep(600)", ["1 in 00:00:05"], "One epoch was not over after 5 s"),
    ],
    ids=["fails", "memory", "too long"],
)
def test_why_a_trial_failed(
    cluster: Cluster, laptop: Laptop, folder: Path, cell: str, words: list[str], why: str
) -> None:
    write_notebook(folder / "a.ipynb", [EPOCHS[0], f"print(epochs)\n{cell}"])
    code, out, said = done(submit(laptop, folder, *words))
    assert (code, out) == (1, "") and why in said, said
    assert nothing_is_left(cluster)


def test_whoever_gives_up_gives_the_job_back(
    cluster: Cluster, laptop: Laptop, folder: Path
) -> None:
    write_notebook(folder / "a.ipynb", [EPOCHS[0], "import time\nprint(epochs)\ntime.sleep(600)"])
    process = submit(laptop, folder, "2 epochs")

    def runs() -> bool:
        look = ["squeue", "--user=alice", "--noheader", "--states=RUNNING", "--format=%j"]
        return "a-trial" in cluster.run("login1", look).stdout

    try:
        eventually(runs)
        process.send_signal(signal.SIGINT)
        code, out, said = done(process)
    finally:
        process.kill()
    assert (code, out) == (130, ""), said
    assert nothing_is_left(cluster)


def test_an_open_session_is_preferred_and_may_end_under_it(
    cluster: Cluster, laptop: Laptop, folder: Path
) -> None:
    before = folders_of(cluster, "a")
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        write_notebook(folder / "a.ipynb", EPOCHS)
        code, script, said = done(submit(laptop, folder, "8 epochs", "--dry-run"))
        assert code == 0 and "It runs in the session mini; Ctrl-C ends it." in said, said
        assert "tries it in" not in said and "Trial: 8 epochs in" in said
        assert "#SBATCH --time=00:05:00" in script
        assert folders_of(cluster, "a") == before

        waiting = [EPOCHS[0], "import time\nprint(epochs)\ntime.sleep(600)"]
        write_notebook(folder / "a.ipynb", waiting)
        first = submit(laptop, folder, "2 epochs")
        try:
            eventually(lambda: on_node(cluster, "[a].py --parameters"))
            # Two at once: the second one gets a job of its own.
            second = submit(laptop, folder, "1 in 00:00:03")
            code, _, said = done(second)
            assert code == 1 and "Not in the session mini: A trial runs in this session" in said
            assert "One epoch was not over after 3 s" in said, said
            seen = len(session.events)
            (jupyter,) = pids(cluster, "cpu01", "jupyter-lab")
            cluster.run("cpu01", ["kill", "-9", jupyter])
            code, out, said = done(first)
        finally:
            first.kill()
        assert (code, out) == (1, "") and "was started again, and the trial ended with it" in said
        eventually(lambda: not on_node(cluster, "[a].py --parameters"))
        assert not on_node(cluster, "[j]upyter_hpc_trial")

        # Ctrl-C ends it, too, and nothing is left.
        session.wait_for("ready", 40, after=seen)
        third = submit(laptop, folder, "2 epochs")
        try:
            eventually(lambda: on_node(cluster, "[a].py --parameters"))
            third.send_signal(signal.SIGINT)
            code, out, said = done(third)
        finally:
            third.kill()
        assert (code, out) == (130, ""), said
        assert not on_node(cluster, "[a].py --parameters")
        assert folders_of(cluster, "a") == before


def folders_of(cluster: Cluster, notebook: str) -> set[Path]:
    """What submits of a notebook from the laptop have left on the cluster."""
    return {*(cluster.home("alice") / "jupyter-hpc" / notebook).glob("*")}


def on_node(cluster: Cluster, what: str) -> str:
    """Processes whose command is like that, and folders of trials."""
    look = 'ps -eo args | grep -- "$1"; ls -d /tmp/jupyter-hpc-trial-* 2> /dev/null; true'
    return cluster.run("cpu01", ["sh", "-c", look, "sh", what], user="alice").stdout
