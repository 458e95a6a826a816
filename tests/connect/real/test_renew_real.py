"""A session that goes on in another job, on the real cluster: the old job goes, the rest stays."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.counting import Counter, Port
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import Session, connected, run
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)

#: What a page must not wait for longer, from the new server's first answer on.
CHANGE_SECONDS = 2.0


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "renew")
    fresh.write_profile("mini", {"slurm": {"poll_seconds": 2}})
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle()


def names(cluster: Cluster) -> dict[str, str]:
    """The jobs of alice by number, with their names."""
    listed = cluster.run("login1", ["squeue", "--noheader", "--user=alice", "--format=%i %j"])
    rows = (line.split() for line in listed.stdout.splitlines())
    return {number: name for number, name in rows}


def readies(session: Session) -> list[dict[str, Any]]:
    return [event for event in session.events if event["event"] == "ready"]


def shorten(cluster: Cluster, job: str) -> None:
    """Let the time limit come near."""
    cluster.run("login1", ["scontrol", "update", f"JobId={job}", "TimeLimit=10"], check=True)


def said(session: Session) -> str:
    return " ".join(event["text"] for event in session.events)


def test_the_session_goes_on_in_another_job(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini", "--renew=variables") as session:
        old = session.wait_for("ready", 120)["job_id"]
        port = Port(session)
        asked = {"path": "a.ipynb", "name": "a.ipynb", "type": "notebook"}
        before = port.ask("POST", "/api/sessions", {**asked, "kernel": {"name": "python3"}})
        terminal = port.ask("POST", "/api/terminals", {"cwd": "/var"})["name"]
        assert port.ask("GET", "/jupyter-hpc/session")["job"]["id"] == old
        Kernel(laptop).run_in(before["kernel"]["id"], "import sys; n = 41")
        counter = Counter(port)
        shorten(cluster, old)
        eventually(lambda: len(readies(session)) == 2, lambda: said(session), seconds=90)
        pause = counter.longest_pause()
        new = readies(session)[1]["job_id"]
        assert port.ask("GET", "/jupyter-hpc/session")["job"]["id"] == new != old
        eventually(lambda: names(cluster) == {new: "jupyter-hpc-mini"})
        # The page knows its notebook by these ids, and its terminal by name.
        (after,) = port.ask("GET", "/api/sessions")
        assert (after["id"], after["kernel"]["id"]) == (before["id"], before["kernel"]["id"])
        (kept,) = port.ask("POST", "/jupyter-hpc/leave")["terminals"]
        assert kept == {"name": terminal, "cwd": "/var"}
        # The counter of the kernel goes on; its file is gone.
        assert Kernel(laptop).run_in(after["kernel"]["id"], "n += 1; print(n)") == "42\n"
        left = list(cluster.home("alice").glob(".local/state/jupyter-hpc/jobs/*/variables-*"))
        assert left == []
        words = said(session)
        assert "a.ipynb: 1 variable carried over, not: sys (a module: import it again)" in words
        assert "side by side for at most" in words and "CPU-hours" in words
        assert f"Job {new} was asked for, to go on when job {old} ends in " in words
        assert f"goes on in job {new}" in words and f"Job {old} was cancelled." in words
        print(f"{len(counter.counts)} answers, longest pause {pause:.2f} s: {counter.refused}")
        assert pause < CHANGE_SECONDS
        # The same laptop, and any other one, finds the job that serves now.
        assert run(laptop, "disconnect", "mini").returncode == 0
        session.wait_exit(60)
    with connected(laptop, "mini") as again:
        assert again.wait_for("ready", 120)["job_id"] == new


def test_a_late_successor_goes_on_with_the_session(cluster: Cluster, laptop: Laptop) -> None:
    """It waits when the old job ends: the session waits for it, and nothing is asked for twice."""
    with connected(laptop, "mini", "--renew=variables") as session:
        old = session.wait_for("ready", 120)["job_id"]
        closed = ["scontrol", "update", "PartitionName=cpu", "State=DOWN"]
        cluster.run("login1", closed, check=True)
        try:
            shorten(cluster, old)
            eventually(lambda: len(names(cluster)) == 2, seconds=60)
            (new,) = set(names(cluster)) - {old}
            cluster.run("login1", ["scancel", old], user="alice", check=True)
            waits = f"Job {new} was asked for before that, and the session goes on in it"
            eventually(lambda: waits in said(session), lambda: said(session), seconds=60)
            eventually(lambda: names(cluster) == {new: "jupyter-hpc-mini"}, seconds=30)
            eventually(lambda: session.names()[-1] == "pending", lambda: str(session.names()))
        finally:
            cluster.run("login1", ["scontrol", "update", "PartitionName=cpu", "State=UP"])
        eventually(lambda: len(readies(session)) == 2, lambda: said(session), seconds=90)
        assert readies(session)[1]["job_id"] == new
        assert Kernel(laptop).run("print(1)") == "1\n"
        assert run(laptop, "stop", "mini").returncode == 0
        eventually(lambda: names(cluster) == {})


def test_a_session_that_is_stopped_with_its_successor_asks_for_no_third_job(
    cluster: Cluster, laptop: Laptop
) -> None:
    """Its job was asked for by an earlier connect, and with other resources than the profile's:
    so is the successor.
    """
    closed = ["scontrol", "update", "PartitionName=cpu"]
    shape = ["--time", "40:00", "--cpus", "2", "--mem", "1500M"]
    with connected(laptop, "mini", *shape) as first:
        old = first.wait_for("ready", 120)["job_id"]
    with connected(laptop, "mini", "--renew") as session:
        assert session.wait_for("ready", 120)["job_id"] == old
        cluster.run("login1", [*closed, "State=DOWN"], check=True)
        try:
            shorten(cluster, old)
            eventually(lambda: len(names(cluster)) == 2, lambda: said(session), seconds=60)
            (new,) = set(names(cluster)) - {old}
            asked = ["squeue", "--noheader", f"--jobs={new}", "--format=%c %m %l"]
            assert cluster.run("login1", asked).stdout.split() == ["2", "1500M", "40:00"]
            cluster.run("login1", ["scancel", "--user=alice"], user="alice", check=True)
            ended = session.wait_for("ended", 60)
        finally:
            cluster.run("login1", [*closed, "State=UP"])
        assert "cancelled by you" in ended["text"] and ended["cause"] == "cancelled"
        session.wait_exit(60)
        assert session.names().count("ready") == 1 and names(cluster) == {}


def test_a_successor_that_fails_harms_nothing(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini", "--renew") as session:
        old = session.wait_for("ready", 120)["job_id"]
        port = Port(session)
        home = cluster.home("alice")
        # No server can be started any more: the session's files have no place.
        (home / ".local/state/jupyter-hpc/jobs").chmod(0o500)
        try:
            shorten(cluster, old)
            eventually(lambda: "could not be taken over" in said(session), seconds=90)
            assert "It goes on until its time limit." in said(session)
            eventually(lambda: names(cluster) == {old: "jupyter-hpc-mini"})
            assert port.ask("GET", "/jupyter-hpc/session")["job"]["id"] == old
        finally:
            (home / ".local/state/jupyter-hpc/jobs").chmod(0o700)


def test_a_successor_that_was_left_is_found_again(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini", "--renew") as session:
        old = session.wait_for("ready", 120)["job_id"]
        cluster.run("login1", ["scontrol", "update", "PartitionName=cpu", "State=DOWN"], check=True)
        try:
            shorten(cluster, old)
            eventually(lambda: len(names(cluster)) == 2, seconds=60)
            assert "jupyter-hpc-mini+next" in names(cluster).values()
            listed = json.loads(run(laptop, "status", "--all", "--json").stdout)
            assert len(listed) == 2
            # A program that dies leaves it; whoever comes next is told, and stop ends both.
            session.end(signal.SIGKILL)
            with connected(laptop, "mini") as again:
                again.wait_for("ready", 120)
                assert "which was asked for to take this session over" in said(again)
                assert run(laptop, "stop", "mini").returncode == 0
            eventually(lambda: names(cluster) == {})
        finally:
            cluster.run("login1", ["scontrol", "update", "PartitionName=cpu", "State=UP"])


def test_whoever_leaves_leaves_no_successor(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini", "--renew") as session:
        old = session.wait_for("ready", 120)["job_id"]
        cluster.run("login1", ["scontrol", "update", "PartitionName=cpu", "State=DOWN"], check=True)
        try:
            shorten(cluster, old)
            eventually(lambda: len(names(cluster)) == 2, seconds=60)
            assert run(laptop, "disconnect", "mini").returncode == 0
            eventually(lambda: names(cluster) == {old: "jupyter-hpc-mini"})
        finally:
            cluster.run("login1", ["scontrol", "update", "PartitionName=cpu", "State=UP"])
