"""A trial in alice's session on the real cluster: what it measures, and what ends it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.batch.notebooks import AnyCell, notebook
from tests.cluster.cluster import Cluster
from tests.cluster.layout import user_named
from tests.node.on_cluster import NodeServer, node_server
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)

SMALL = {"partition": "cpu", "cpus": 1, "memory": "300M", "gpus": 0}
EPOCHS: list[AnyCell] = [
    "epochs = 50",
    "import time\nfor epoch in range(epochs):\n    time.sleep(0.3)\n"
    "    print('epoch', epoch, flush=True)",
]


def write(cluster: Cluster, cells: list[AnyCell], name: str = "tried.ipynb") -> None:
    alice, path = user_named("alice"), cluster.home("alice") / name
    path.write_text(json.dumps(notebook(cells)), encoding="utf-8")
    os.chown(path, alice.uid, alice.uid)


def start(server: NodeServer, **members: Any) -> str:
    """A trial of the notebook; its id."""
    body = {"request": {"path": "tried.ipynb", "request": SMALL}, **members}
    status, begun = server.ask("trial", "POST", body=body)
    assert status == 200, begun
    return str(begun["id"])


def over(server: NodeServer, trial: str) -> dict[str, Any]:
    def ended() -> Any:
        found = server.ask("trial")[1]
        assert found["id"] == trial
        return found["state"] != "running" and found

    return dict(eventually(ended))


def left(cluster: Cluster, host: str, what: str = "[.]/jupyter_hpc_trial[.]py") -> str:
    """Folders of trials on a node, and processes whose commands are like that."""
    look = 'ls -d /tmp/jupyter-hpc-trial-* 2>/dev/null; ps -eo args | grep -- "$1"; true'
    return cluster.run(host, ["sh", "-c", look, "sh", what], user="alice", check=True).stdout


def test_epochs_are_measured_with_the_python_of_the_job(
    panels: NodeServer, cluster: Cluster
) -> None:
    write(cluster, EPOCHS)
    before = {path.name for path in cluster.home("alice").iterdir()}
    trial = start(panels, epochs=12)
    eventually(lambda: (panels.ask("trial")[1]["progress"]["epoch"] or 0) > 3)
    found = over(panels, trial)
    assert found["state"] == "done", found
    result = found["result"]
    assert "12 epochs" in result["message"] and result["memory"] == "1G"
    # 15 s and what starting takes, with 30 % and in whole minutes, but 5 at least.
    assert (result["time"], result["chain"]) == ("00:05:00", None)
    assert left(cluster, "gpu01") == ""
    assert {path.name for path in cluster.home("alice").iterdir()} - before <= {".local"}


@pytest.mark.parametrize("grow", ["held += [bytearray(50_000_000)]", "held = bytearray(3 * 10**9)"])
def test_a_lack_of_memory_ends_the_trial_and_not_the_session(
    panels: NodeServer, cluster: Cluster, grow: str
) -> None:
    """Slowly, which we notice first, and at once, which the system does."""
    cells = ["epochs = 9", "import time\nheld = []\nprint(epochs)\nfor turn in range(100):\n"]
    write(cluster, [cells[0], f"{cells[1]}    {grow}\n    time.sleep(0.15)"])
    kills = len(panels.ask("session")[1]["memory_kills"])
    found = over(panels, start(panels))
    assert found["state"] == "failed", found
    said = found["problem"]["message"]
    assert "and the session has no more" in said or "as the system does where memory" in said
    status, session = panels.ask("session")
    assert status == 200
    assert not any(kill["kernels"] for kill in session["memory_kills"][kills:])
    assert left(cluster, "gpu01") == ""


def test_an_epoch_that_is_too_long_and_a_notebook_that_fails(
    panels: NodeServer, cluster: Cluster
) -> None:
    write(cluster, [EPOCHS[0], "import time\nprint(epochs, 'begun', flush=True)\ntime.sleep(600)"])
    said = over(panels, start(panels, seconds=3))["problem"]["message"]
    assert said.startswith("One epoch was not over after 3 s") and "1 begun" in said
    write(cluster, [EPOCHS[0], "import no_such_thing\nprint(epochs)"])
    said = over(panels, start(panels))["problem"]["message"]
    assert said.startswith("The job's Python has no module 'no_such_thing'.")
    assert left(cluster, "gpu01") == ""


def test_a_server_that_is_killed_takes_its_trial_along(cluster: Cluster, tmp_path: Path) -> None:
    cluster.heal()
    mark = f"{time.time_ns() % 10**9}"
    write(cluster, [EPOCHS[0], f"import os\nprint(epochs)\nos.system('setsid sleep {mark}')"])
    sleeping = f"sleep [{mark[0]}]{mark[1:]}"
    plain = ("--partition=cpu", "--mem=1G", "--time=10")
    with node_server(cluster, tmp_path, job=plain) as server:
        start(server)
        eventually(lambda: left(cluster, "cpu01", sleeping))
        kill = 'kill -9 $(pgrep -f "^[^ ]*python -c .*$1")'
        cluster.run("cpu01", ["sh", "-c", kill, "sh", server.path.name], user="alice", check=True)
        eventually(lambda: "sleep" not in left(cluster, "cpu01", sleeping))
    # With its step the system kills all that would have removed the folder.
    cluster.run("cpu01", ["sh", "-c", "rm -r /tmp/jupyter-hpc-trial-*"], user="alice")
    with node_server(cluster, tmp_path, job=plain) as server:
        assert server.ask("trial")[1] == {
            "id": "", "state": "none", "progress": None, "problem": None, "result": None,
        }  # fmt: skip
    cluster.heal()
