"""A notebook through the server's addresses into a real Slurm, as alice inside her session."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.batch.notebooks import AnyCell, notebook
from tests.cluster.cluster import Cluster
from tests.cluster.layout import user_named
from tests.node.on_cluster import NodeServer, finished, row
from tests.node.schema import check
from tests.waiting import eventually

SMALL = {"partition": "cpu", "time": "5", "cpus": 1, "memory": "300M", "gpus": 0}

CELLS: list[AnyCell] = [
    "import time\nSTEPS = 3",
    "for step in range(STEPS):\n    print('step', step, flush=True)\n    time.sleep(0.2)",
    "import matplotlib.pyplot as plt\nplt.plot(range(STEPS))\nplt.show()",
    "{'steps': STEPS}",
]


def write(cluster: Cluster, name: str, cells: Sequence[AnyCell]) -> None:
    alice, path = user_named("alice"), cluster.home("alice") / name
    path.write_text(json.dumps(notebook(cells)), encoding="utf-8")
    os.chown(path, alice.uid, alice.uid)


def post(panels: NodeServer, verb: str, path: str, **members: Any) -> tuple[int, Any]:
    request = {**SMALL, **members.pop("request", {})}
    return panels.ask(verb, "POST", body={"path": path, "request": request, **members})


def preview(panels: NodeServer, path: str, **members: Any) -> dict[str, Any]:
    status, shown = post(panels, "convert", path, **members)
    assert status == 200, shown
    check(shown, "BatchPreview")
    return dict(shown)


def test_a_notebook_becomes_a_job_with_its_results(panels: NodeServer, cluster: Cluster) -> None:
    go = cluster.home("alice") / "go-on"
    until_seen = "import os\nwhile not os.path.exists('/home/alice/go-on'):\n    time.sleep(0.1)"
    write(cluster, "small.ipynb", [*CELLS, until_seen])
    shown = preview(panels, "small.ipynb")
    assert shown["problems"] == []
    assert shown["estimated_start"] == pytest.approx(time.time(), abs=900)
    assert shown["estimated_nodes"] == "cpu01"
    assert set(shown["choices"]["accounts"]) == {"research", "tiny"}
    assert "hpc-env" in shown["choices"]["environment"], "the Python of the server"

    status, done = post(panels, "submit", "small.ipynb", parameters={"STEPS": "5"})
    check(done, "SubmittedJob")
    assert status == 200, done
    # The list of jobs is asked for again by itself, because this was an own action.
    eventually(lambda: done["job_id"] in json.dumps(panels.ask("jobs")[1]))
    go.touch()
    record = finished(panels, done["job_id"])
    assert (record["state"], record["name"]) == ("COMPLETED", "small")
    status, view = panels.ask(f"jobs/{done['job_id']}")
    assert view["files"]["run_dir"] == done["run_dir"]
    run = cluster.home("alice") / view["files"]["run_path"]
    assert (run / "output/figures/cell03_1.png").stat().st_size > 1000
    assert "step 4" in panels.ask(f"jobs/{done['job_id']}/log")[1]["text"]
    assert "SLURM" not in (run / "small.sbatch").read_text().split("#SBATCH")[0]


def test_a_sweep_is_one_array(panels: NodeServer, cluster: Cluster) -> None:
    write(cluster, "swept.ipynb", CELLS[:2])
    sweep = {"parameters": {"STEPS": "1,2,3"}, "at_once": 2}
    shown = preview(panels, "swept.ipynb", **sweep)
    assert (shown["runs"], "--array=1-3%2" in shown["sbatch"]) == (3, True)
    status, done = post(panels, "submit", "swept.ipynb", **sweep)
    assert status == 200, done
    run = cluster.home("alice") / done["run_dir"].removeprefix("/home/alice/")
    eventually(lambda: len(list(run.glob("output/*/DONE"))) == 3, seconds=100)


@pytest.mark.parametrize(
    ("request_", "option"),
    [
        ({"time": "9-00:00:00"}, "time"),
        ({"partition": "nowhere"}, "partition"),
        ({"gpus": 1}, "gpus"),
        ({"memory": "9000G"}, "memory"),
        ({"account": "strangers"}, ""),
    ],
)
def test_what_the_cluster_does_not_allow_is_said_beside_the_field(
    panels: NodeServer, cluster: Cluster, request_: dict[str, Any], option: str
) -> None:
    write(cluster, "small.ipynb", CELLS)
    shown = preview(panels, "small.ipynb", request=request_)
    assert [problem["option"] for problem in shown["problems"]] == [option], shown["problems"]
    assert shown["problems"][0]["hint"] and shown["sbatch"]
    status, error = post(panels, "submit", "small.ipynb", request=request_)
    check(error, "Error")
    assert (status, error["message"]) == (422, shown["problems"][0]["message"])


def test_a_chain_says_which_parts_are_cancelled_or_held_and_why(
    panels: NodeServer, cluster: Cluster
) -> None:
    write(cluster, "step.ipynb", ["import sys\nCODE = 0", "sys.exit(CODE)"])

    def submitted(code: str) -> str:
        members = {"chain": 4, "until": "exit", "parameters": {"CODE": code}, "force": True}
        status, done = post(panels, "submit", "step.ipynb", **members)
        assert status == 200, done
        return str(done["job_id"])

    ended, held = submitted("0"), submitted("85")
    asked = ["squeue", "--noheader", "--array", "--format=%i/%r"]

    def queued() -> list[str]:
        lines = cluster.run("login1", asked).stdout.split()
        return [line for line in lines if line.partition("_")[0] in (ended, held)]

    rest = [f"{held}_{part}/JobHeldUser" for part in (3, 4)]
    eventually(lambda: sorted(queued()) == rest, seconds=120)
    # Parts that never ran have one record, with the name that their row had.
    view = panels.ask(f"jobs/{ended}_[2-4]")[1]
    check(view, "JobView")
    said = "Part 1 ended well; the later ones, up to part 4, were cancelled."
    assert view["state_text"] == said, view
    assert "ended well" not in str(panels.ask(f"jobs/{ended}_1")[1]["state_text"])

    view = panels.ask(f"jobs/{held}_[3-4]")[1]
    check(view, "JobView")
    text = view["reason"]["text"]
    assert text.startswith("Held after part 2: 2 parts left no newer checkpoint"), view["reason"]
    assert f"scontrol release '{held}_[3-4]'" in text
    assert panels.ask(f"jobs/{held}_[3-4]/cancel", "POST")[0] == 200


def test_the_waiting_job_is_seen_and_can_be_cancelled(panels: NodeServer, cluster: Cluster) -> None:
    write(cluster, "later.ipynb", ["print(1)"])
    later = {"extra": ["--begin now+1hour"]}
    status, done = post(panels, "submit", "later.ipynb", request=later)
    assert status == 200, done
    waiting = eventually(
        lambda: (job := row(panels, done["job_id"])) and job["reason"] == "BeginTime" and job
    )
    assert waiting["state"] == "PENDING"
    assert panels.ask(f"jobs/{done['job_id']}/cancel", "POST")[0] == 200
