"""Logs, recordings and the stream on a real Slurm, as alice."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.node.on_cluster import WAITS, NodeServer, ended, finished_view, in_state, let_go, submit
from tests.node.schema import check
from tests.waiting import eventually


def test_a_log_grows_and_its_name_is_expanded(panels: NodeServer, cluster: Cluster) -> None:
    job_id = submit(
        cluster,
        f"echo first; echo problem >&2; {WAITS}; echo second; sleep 60",
        "--job-name=two words",
        "--output=out-%x-%j-%A-%u-%N.txt",
        "--error=err-%4j.txt",
    )
    in_state(panels, job_id, "RUNNING")

    def text(stream: str = "stdout", query: str = "") -> dict[str, Any]:
        status, piece = panels.ask(f"jobs/{job_id}/log?stream={stream}{query}")
        assert status == 200
        check(piece, "LogPiece")
        return dict(piece)

    errors = eventually(lambda: (piece := text("stderr"))["text"] and piece)
    assert errors["text"] == "problem\n"
    assert errors["path"] == f"/home/alice/err-{int(job_id):04d}.txt"
    output = text()
    assert output["path"] == f"/home/alice/out-two words-{job_id}-{job_id}-alice-cpu01.txt"
    assert output["text"] == "first\n"
    let_go(cluster, job_id)
    after = output["next_offset"]
    more = eventually(
        lambda: (piece := text(query=f"&offset={after}&file={output['file']}"))["text"] and piece
    )
    assert (more["offset"], more["text"]) == (after, "second\n")
    panels.ask(f"jobs/{job_id}/cancel", "POST")


def test_only_the_tail_first_and_truncation_is_seen(panels: NodeServer, cluster: Cluster) -> None:
    job_id = submit(cluster, "seq 1 300000; sleep 100", "--output=big.txt")
    path = cluster.home("alice") / "big.txt"
    eventually(lambda: path.exists() and path.read_text().endswith("\n300000\n"))
    _, tail = panels.ask(f"jobs/{job_id}/log")
    assert tail["size"] > tail["next_offset"] - tail["offset"] > 1_000_000
    assert tail["text"].endswith("300000\n")
    assert tail["text"].split("\n", 1)[0].isdigit()
    start = tail["offset"]
    _, before = panels.ask(f"jobs/{job_id}/log?offset={start - 1000}&limit=1000")
    assert (before["offset"], before["next_offset"]) == (start - 1000, start)
    path.write_text("anew\n")
    _, again = panels.ask(f"jobs/{job_id}/log?offset={tail['next_offset']}&file={tail['file']}")
    assert (again["restarted"], again["text"]) == (True, "anew\n")
    panels.ask(f"jobs/{job_id}/cancel", "POST")


def test_the_log_of_a_finished_job_stays_readable(panels: NodeServer, cluster: Cluster) -> None:
    job_id = ended(panels, cluster, "echo the end")
    _, piece = panels.ask(f"jobs/{job_id}/log")
    assert piece["text"] == "the end\n"
    assert piece["path"] == f"/home/alice/slurm-{job_id}.out"
    _, errors = panels.ask(f"jobs/{job_id}/log?stream=stderr")
    assert errors["message"] == "Errors of this job go to the same file as its output."


def test_a_recording_of_the_gpus_is_found_beside_the_job(
    panels: NodeServer, cluster: Cluster
) -> None:
    folder = cluster.home("alice") / "run one"
    cluster.run("login1", ["mkdir", "-p", "/home/alice/run one"], user="alice", check=True)
    lines = [f"{1000 + second},cpu01,0,X,{second},100,400,50,40" for second in range(10)]
    (folder / "gpu-usage.csv").write_text(
        "time,host,gpu,name,load,memory_mib,memory_total_mib,power_w,temperature_c\n"
        + "\n".join(lines)
        + "\n"
    )
    job_id = submit(cluster, "sleep 60", at="/home/alice/run one")
    status, history = panels.ask(f"jobs/{job_id}/gpus")
    check(history, "GpuHistory")
    assert (status, history["source"]) == (200, "recording")
    assert history["gpus"][0]["load"] == list(range(10))
    view = panels.ask(f"jobs/{job_id}")[1]
    assert view["files"]["recording"] is True
    assert view["files"]["contents_path"] == "run one"
    panels.ask(f"jobs/{job_id}/cancel", "POST")


def test_a_run_of_ours_is_found_again_after_its_end(panels: NodeServer, cluster: Cluster) -> None:
    """As `submit` leaves it: a note under the job's id names the folder of the run."""
    made = cluster.run(
        "login1",
        ["mkdir", "-p", "run/logs", "run/output", ".local/state/jupyter-hpc/runs"],
        user="alice",
        cwd="/home/alice",
    )
    assert made.returncode == 0, made.stderr
    run = cluster.home("alice") / "run"
    (run / "output/gpu-usage.csv").write_text("time,host,gpu,load\n10,cpu01,0,30\n")
    (run / "train.sbatch").write_text("#!/bin/bash\n#SBATCH --time=10\n")
    job_id = submit(cluster, "echo from the run", "--output=/home/alice/run/logs/%j.out")
    note = cluster.home("alice") / ".local/state/jupyter-hpc/runs" / job_id
    note.write_text("/home/alice/run\n")
    log = run / f"logs/{job_id}.out"
    eventually(lambda: log.exists() and log.read_text())
    view = finished_view(panels, job_id)
    assert (view["files"]["run_dir"], view["files"]["run_path"]) == ("/home/alice/run", "run")
    assert view["files"]["recording"] is True
    assert view["script"].startswith("#!/bin/bash\n#SBATCH")
    assert panels.ask(f"jobs/{job_id}/log")[1]["text"] == "from the run\n"
    assert panels.ask(f"jobs/{job_id}/gpus")[1]["gpus"][0]["load"] == [30.0]


def test_the_stream_pushes_what_is_watched(panels: NodeServer, cluster: Cluster) -> None:
    job_id = submit(cluster, "for i in 1 2 3 4 5; do echo line $i; sleep 1; done; sleep 60")
    in_state(panels, job_id, "RUNNING")
    with panels.stream() as stream:
        stream.send(
            json.dumps(
                {
                    "watch": [
                        {"topic": "session"},
                        {"topic": "jobs"},
                        {"topic": "log", "job": job_id},
                    ]
                }
            )
        )
        seen: dict[str, list[Any]] = {"session": [], "jobs": [], "log": []}

        def receive_until(done: Any, patience: float = 60.0) -> None:
            deadline = time.monotonic() + patience
            while not done():
                assert time.monotonic() < deadline, seen
                message = json.loads(stream.recv())
                check(message, "StreamMessage")
                seen[message["topic"]].append(message.get("data") or message)

        receive_until(
            lambda: (
                seen["session"]
                and seen["jobs"]
                and "line 5\n" in "".join(p.get("text", "") for p in seen["log"])
            )
        )
        text = "".join(piece["text"] for piece in seen["log"])
        assert text == "".join(f"line {number}\n" for number in range(1, 6))
        assert seen["log"][0]["job"] == job_id
        check(seen["session"][0], "Session")
        check(seen["jobs"][0], "Jobs")
        count = len(seen["jobs"])
        panels.ask(f"jobs/{job_id}/cancel", "POST")
        receive_until(
            lambda: any(_tells_the_end(update, job_id) for update in seen["jobs"][count:])
        )
        for update in seen["jobs"][count:]:
            check(update, "Jobs" if "jobs" in update else "JobsUpdate")


def _tells_the_end(update: dict[str, Any], job_id: str) -> bool:
    """A stream that missed a version, as with a slow squeue, is sent the whole list."""
    if "jobs" in update:
        return not any(job["id"] == job_id and job["state"] == "RUNNING" for job in update["jobs"])
    return job_id in update.get("removed", []) or any(
        job["id"] == job_id for job in update.get("changed", [])
    )


def test_a_wrong_request_to_the_stream_is_answered(panels: NodeServer) -> None:
    with panels.stream() as stream:
        for wrong in ("no json", '{"watch": 1}', '{"watch": [{"topic": "secrets"}]}', "[]"):
            stream.send(wrong)
            message = json.loads(stream.recv())
            assert message["topic"] == "stream"
            check(message["error"], "Error")
        stream.send(json.dumps({"watch": [{"topic": "log", "job": "4000000"}]}))
        message = json.loads(stream.recv())
        assert (message["topic"], message["job"]) == ("log", "4000000")
        assert message["error"]["message"]


def test_paths_only_of_this_machine(panels: NodeServer, tmp_path: Path) -> None:
    for path in ("jobs/..%2F..%2Fetc%2Fpasswd/log", "jobs/1;id/log", "jobs/%00/log"):
        assert panels.ask(path)[0] == 400
