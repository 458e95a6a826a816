"""Asked is given, or said: limits, other resources than those of the session, and --dry-run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, connected, environment, run
from tests.connect.real.terminal import Terminal


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    laptop = cluster.laptop("alice", "asked")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    yield laptop
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def test_a_dry_run_queues_nothing_and_limits_are_named(cluster: Cluster, laptop: Laptop) -> None:
    laptop.write_profile("mini", {"budget": {"unit": "h"}, "budget.rates": {"cpu_hour": 2}})
    shown = run(laptop, "connect", "mini", "--dry-run", "--time", "1:00:00")
    assert shown.returncode == 0, shown.stderr
    for words in (
        "nothing was asked for",
        "--time=1:00:00",
        "cpu: at most 1-00:00:00",
        "at most 2 h",
    ):
        assert words in shown.stdout
    plan = json.loads(run(laptop, "connect", "mini", "--dry-run", "--json").stdout)
    assert plan["event"] == "dry-run" and plan["estimated_start"] and plan["existing_job"] is None
    for dry in (["--dry-run"], []):
        refused = run(laptop, "connect", "mini", "--time", "99:00:00", *dry)
        assert refused.returncode == 1
        assert "99:00:00 is longer than partition cpu allows (1-00:00:00)." in refused.stderr
    assert cluster.jobs() == []


def test_a_job_that_can_never_start_ends_the_wait(cluster: Cluster, laptop: Laptop) -> None:
    limit = ["scontrol", "update", "partition=cpu"]
    cluster.run("login1", [*limit, "state=down"], check=True)
    try:
        with connected(laptop, "mini", "--time", "3:00:00") as session:
            session.wait_for("pending")
            cluster.run("login1", [*limit, "maxtime=1:00:00", "state=up"], check=True)
            assert session.wait_exit(60) == 1
            assert "can never start: Its time limit is longer" in session.errors
            assert "was cancelled." in session.errors
            last = session.events[-1]
            assert last["event"] == "error" and "can never start" in last["message"]
        assert cluster.jobs() == []
    finally:
        cluster.run("login1", [*limit, "maxtime=1-00:00:00", "state=up"], check=True)


def test_other_resources_are_said_and_asked_about(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]
        differs = f"Job {job} of mini exists, and is not what is asked for: time 00:30:00 instead"
        for _ in range(2):  # while it is open on this laptop, and when it was left
            refused = run(laptop, "connect", "mini", "--time", "20:00")
            assert refused.returncode == 2
            assert f"{differs} of 00:20:00." in refused.stderr
            for way in ("connect mini", "stop mini", "connect mini --new --time 20:00"):
                assert f"jupyter-hpc {way}" in refused.stderr
            if session.process.poll() is None:
                same = run(
                    laptop, "connect", "mini", "--time", "30:00", "--cpus", "1", "--mem", "2G"
                )
                assert same.returncode == 0 and "is connected already" in same.stderr
                session.end()
    assert cluster.jobs() == [job]
    words = ["connect", "mini", "--no-browser", "--time", "20:00"]
    with Terminal(command(*words), environment(laptop)) as terminal:
        terminal.expect("is not what is asked for")
        terminal.expect(r"\[u\]")
        terminal.type("r\n")
        terminal.expect(f"Job {job} was cancelled; another one is asked for")
        terminal.expect(r"over ssh\): http")
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        terminal.wait()


@pytest.mark.timeout(300)
def test_an_open_session_is_used_replaced_or_joined_by_a_further_one(
    cluster: Cluster, laptop: Laptop
) -> None:
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]
        _use_or_join(laptop, job)
        assert session.process.poll() is None and session.get("/api")[0] == 200
        _replace(laptop, job)
        assert session.wait_exit() == 0 and job not in cluster.jobs()


def _use_or_join(laptop: Laptop, job: str) -> None:
    words = ["connect", "mini", "--no-browser", "--time", "20:00"]
    with Terminal(command(*words), environment(laptop)) as terminal:
        terminal.expect(r"replace it \(r\).*\[u\]")
        terminal.type("u\n")
        terminal.expect("mini is connected already")
        assert terminal.wait() == 0
    with Terminal(command(*words), environment(laptop)) as terminal:
        terminal.expect(r"\[u\]")
        terminal.type("f\n")
        terminal.expect(r"over ssh\): http")
        further = json.loads(run(laptop, "status", "--json").stdout)
        assert [entry["cluster"] for entry in further] == ["mini", "mini-2"]
        assert further[0]["job_id"] == job != further[1]["job_id"]
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        assert terminal.wait() == 0


def _replace(laptop: Laptop, job: str) -> None:
    words = ["connect", "mini", "--no-browser", "--time", "20:00"]
    with Terminal(command(*words), environment(laptop)) as terminal:
        terminal.expect(r"\[u\]")
        terminal.type("r\n")
        terminal.expect(f"Job {job} was cancelled")
        terminal.expect(r"over ssh\): http")
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        assert terminal.wait() == 0
