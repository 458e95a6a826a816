"""Every service and every action on a real Slurm, as alice, with mallory on the same cluster."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.cluster.cluster import Cluster
from tests.node.on_cluster import (
    NodeServer,
    ended,
    finished,
    finished_view,
    in_state,
    jobs,
    row,
    submit,
)
from tests.node.schema import check
from tests.waiting import eventually

NASTY_NAMES = [
    "my job|x,y",
    "ünïcødé ☃ 名前",
    "<img src=x onerror=alert(1)>",
    "$(touch /tmp/owned) `id`; --me",
    "JobId=7 JobState=RUNNING",
    "50%x %j",
]


def test_the_session_is_the_job_with_its_limits(panels: NodeServer) -> None:
    status, session = panels.ask("session")
    assert status == 200
    check(session, "Session")
    job = session["job"]
    assert (session["host"], session["user"], session["cluster"]["name"]) == (
        "gpu01",
        "alice",
        "mini",
    )
    assert (job["nodes"], job["partition"], job["account"]) == (["gpu01"], "gpu", "research")
    assert (job["gpus"], job["gpu_type"], job["memory_mb"]) == (1, "a100", 2048)
    assert 0 < job["time_left"] <= 1200
    assert job["ends"] == pytest.approx(session["now"] + job["time_left"], abs=15)
    assert session["memory"]["limit"] == 2048 * 1024 * 1024
    assert 10 << 20 < session["memory"]["used"] < 2 << 30
    assert session["problem"] is None


def test_without_the_token_nothing_is_told(panels: NodeServer) -> None:
    for path in ("session", "jobs", "jobs/1", "jobs/1/log", "storage", "partitions", "gpus"):
        assert panels.ask(path, token="wrong")[0] == 403


def test_names_made_to_break_parsers_come_through_whole(
    panels: NodeServer, cluster: Cluster
) -> None:
    ids = {
        submit(cluster, "sleep 60", "--hold", f"--job-name={name}"): name for name in NASTY_NAMES
    }
    eventually(lambda: all(row(panels, job_id) for job_id in ids))
    for job_id, name in ids.items():
        listed = row(panels, job_id)
        assert listed and (listed["name"], listed["partition"]) == (name, "cpu")
        status, view = panels.ask(f"jobs/{job_id}")
        check(view, "JobView")
        assert (status, view["job"]["name"], view["job"]["user"]) == (200, name, "alice")
    status, done = panels.ask(f"jobs/{','.join(ids)}/cancel", "POST")
    assert (status, len(done["results"])) == (200, len(ids))
    eventually(lambda: not set(ids) & {job["id"] for job in jobs(panels)["jobs"]})
    for job_id, name in ids.items():
        record = finished(panels, job_id)
        assert (record["name"], record["state"]) == (name, "CANCELLED")
        assert "cancelled" in record["state_text"]


def test_mallory_s_jobs_are_never_shown_and_never_touched(
    panels: NodeServer, cluster: Cluster
) -> None:
    foreign = submit(cluster, "echo secret; sleep 200", "--job-name=private", user="mallory")
    own = submit(cluster)
    in_state(panels, own, "RUNNING")
    listed = json.dumps(jobs(panels))
    assert "private" not in listed and "mallory" not in listed
    for path in (f"jobs/{foreign}", f"jobs/{foreign}/log", f"jobs/{foreign}/gpus"):
        status, error = panels.ask(path)
        assert status == 404
        assert "secret" not in json.dumps(error)
    for action in ("cancel", "hold", "requeue"):
        status, error = panels.ask(f"jobs/{foreign}/{action}", "POST")
        check(error, "Error")
        assert status == 403, error
        assert "does not allow this" in error["message"]
    status, result = panels.ask(f"jobs/{own},{foreign}/cancel", "POST")
    check(result, "ActionResult")
    assert status == 409
    assert [(item["id"], item["ok"]) for item in result["results"]] == [
        (own, True),
        (foreign, False),
    ]
    state = cluster.run("login1", ["squeue", "-h", "-j", foreign, "-o", "%T"]).stdout.strip()
    assert state in ("RUNNING", "PENDING")
    cluster.run("login1", ["scancel", foreign])


def test_hold_release_and_cancel_a_waiting_job(panels: NodeServer, cluster: Cluster) -> None:
    job_id = submit(cluster, "sleep 100", "--begin=now+1hour")
    waiting = eventually(
        lambda: (job := row(panels, job_id)) and job["reason"] == "BeginTime" and job
    )
    assert waiting["reason_text"] and waiting["reason_advice"]
    assert panels.ask(f"jobs/{job_id}/hold", "POST")[0] == 200
    held = eventually(
        lambda: (job := row(panels, job_id)) and job["reason"] == "JobHeldUser" and job
    )
    assert "hold" in held["reason_text"].lower() or "held" in held["reason_text"].lower()
    view = panels.ask(f"jobs/{job_id}")[1]
    assert view["reason"]["code"] in ("JobHeldUser", "BeginTime")
    assert panels.ask(f"jobs/{job_id}/release", "POST")[0] == 200
    eventually(lambda: (job := row(panels, job_id)) and job["reason"] != "JobHeldUser")
    status, done = panels.ask(f"jobs/{job_id}/cancel", "POST")
    assert (status, done["message"]) == (200, f"Slurm has been told to cancel job {job_id}.")
    eventually(lambda: row(panels, job_id) is None)


def test_requeue_starts_a_running_job_again(panels: NodeServer, cluster: Cluster) -> None:
    job_id = submit(cluster, "sleep 300", "--requeue")
    first = in_state(panels, job_id, "RUNNING")
    assert panels.ask(f"jobs/{job_id}/requeue", "POST")[0] == 200
    # It waits for some seconds only before it runs again.
    eventually(
        lambda: (
            (job := row(panels, job_id))
            and (job["state"] != "RUNNING" or job["started"] > first["started"])
        )
    )
    panels.ask(f"jobs/{job_id}/cancel", "POST")


def test_slurm_s_own_refusal_in_words(panels: NodeServer, cluster: Cluster) -> None:
    job_id = ended(panels, cluster, "true")
    status, error = panels.ask(f"jobs/{job_id}/hold", "POST")
    assert status in (404, 409, 502), error
    assert job_id in error["message"] or "finished" in error["message"].lower(), error
    for action in ("hold", "release", "requeue"):
        status, error = panels.ask(f"jobs/4000000/{action}", "POST")
        check(error, "Error")
        assert (status, error["hint"] != "") == (404, True), error


def test_an_array_has_rows_that_belong_together(panels: NodeServer, cluster: Cluster) -> None:
    array = submit(cluster, "sleep 200", "--array=1-4%1")
    in_state(panels, f"{array}_1", "RUNNING")
    rows = [job for job in jobs(panels)["jobs"] if job["array_id"] == array]
    assert len(rows) == 2
    (rest,) = [job for job in rows if job["phase"] == "pending"]
    assert rest["array_tasks"] == "2-4%1"
    assert panels.ask(f"jobs/{array}_3/cancel", "POST")[0] == 200
    eventually(
        lambda: next((job for job in jobs(panels)["jobs"] if job["array_tasks"] == "2,4%1"), None)
    )
    view = panels.ask(f"jobs/{quote(f'{array}_1')}")[1]
    assert (view["job"]["id"], view["job"]["array_task"]) == (f"{array}_1", "1")
    rest = next(job for job in jobs(panels)["jobs"] if job["array_tasks"] == "2,4%1")
    assert panels.ask(f"jobs/{quote(rest['target'])}/cancel", "POST")[0] == 200
    eventually(lambda: len([j for j in jobs(panels)["jobs"] if j["array_id"] == array]) == 1)
    assert panels.ask(f"jobs/{array}/cancel", "POST")[0] == 200
    eventually(lambda: not [j for j in jobs(panels)["jobs"] if j["array_id"] == array])


def test_parts_of_a_het_job_belong_together(panels: NodeServer, cluster: Cluster) -> None:
    done = cluster.run(
        "login1",
        ["sbatch", "--parsable", "-p", "cpu", "--mem=50M", ":", "-p", "gpu", "--mem=50M"],
        user="alice",
        input="#!/bin/bash\nsleep 100\n",
        cwd="/home/alice",
        check=True,
    )
    het = done.stdout.strip()
    rows = eventually(
        lambda: len(found := [j for j in jobs(panels)["jobs"] if j["het_id"] == het]) == 2 and found
    )
    assert {job["id"]: job["partition"] for job in rows} == {f"{het}+0": "cpu", f"{het}+1": "gpu"}
    status, view = panels.ask(f"jobs/{quote(f'{het}+1')}")
    assert (status, view["job"]["het_id"]) == (200, het), view
    assert panels.ask(f"jobs/{het}/cancel", "POST")[0] == 200
    eventually(lambda: not [j for j in jobs(panels)["jobs"] if j["het_id"] == het])


def test_a_finished_job_with_its_end_in_words(panels: NodeServer, cluster: Cluster) -> None:
    good, bad = ended(panels, cluster, "true"), ended(panels, cluster, "exit 3")
    assert finished(panels, good)["state"] == "COMPLETED"
    record = finished(panels, bad)
    assert (record["state"], record["exit_code"]) == ("FAILED", 3)
    assert record["state_text"] and record["state_advice"]
    view = finished_view(panels, bad)
    assert view["state_text"] == record["state_text"]
    assert view["efficiency"]["time"]["requested"] == "00:10:00"
    assert view["advice"] == [], "silent for short runs"


def test_partitions_with_limits_and_gpus(panels: NodeServer) -> None:
    status, answer = panels.ask("partitions")
    check(answer, "Partitions")
    gpu = next(item for item in answer["partitions"] if item["name"] == "gpu")
    assert (status, gpu["max_time"]) == (200, 4 * 3600)
    assert {item["type"]: item["count"] for item in gpu["gpus"]} == {"a100": 2, "p4": 2}


def test_storage_and_the_shares_that_slurm_keeps(panels: NodeServer) -> None:
    status, report = panels.ask("storage")
    check(report, "StorageReport")
    assert status == 200
    assert report["budget"]["source"] == "sshare"
    assert {account["account"] for account in report["budget"]["accounts"]} == {"research", "tiny"}


def test_efficiency_of_a_job_that_used_little(panels: NodeServer, cluster: Cluster) -> None:
    job_id = ended(panels, cluster, "true", "--cpus-per-task=2")
    efficiency = finished_view(panels, job_id)["efficiency"]
    check(efficiency, "Efficiency")
    assert efficiency["cpu"]["percent"] < 60
    assert efficiency["cpu"]["requested"] == "2 CPUs"


def test_a_running_job_tells_what_it_has_used_so_far(panels: NodeServer) -> None:
    own = panels.ask("session")[1]["job"]["id"]
    view = eventually(
        lambda: (found := panels.ask(f"jobs/{own}")[1])["efficiency"]["cpu"] and found
    )
    check(view, "JobView")
    assert (view["finished"], view["advice"]) == (False, []), "silent for short runs"
    efficiency = view["efficiency"]
    assert efficiency["time"]["requested"] == "00:20:00"
    assert efficiency["memory"]["requested"] == "2.0 GB"
    assert efficiency["memory"]["percent"] > 1, "a Jupyter server needs more than 20 MB"
    assert view["job"]["fields"]["JobState"] == "RUNNING"
