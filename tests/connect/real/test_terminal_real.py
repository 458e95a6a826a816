"""connect at a terminal, on the real cluster: prompts, Ctrl-C, the background."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import SessionRecord
from jupyter_hpc.errors import ConnectError
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import command, connected, environment, record, run
from tests.connect.real.terminal import Terminal
from tests.waiting import eventually

ClusterFactory = Callable[..., Cluster]


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "terminal")
    fresh.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    yield fresh
    run(fresh, "stop", "mini")
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def _at(laptop: Laptop, *words: str) -> Terminal:
    return Terminal(command(*words), environment(laptop))


def _no_manager(laptop: Laptop) -> bool:
    return run(laptop, "status", "--json").stdout == "[]\n"


def test_leaving_keeps_the_job_and_ends_the_manager(cluster: Cluster, laptop: Laptop) -> None:
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect(r"JupyterLab on cpu01 \(job \d+, over ssh\): http://localhost:\d+/lab")
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("l\n")
        terminal.expect(r"Job \d+ stays")
        assert terminal.wait() == 0
    assert run(laptop, "status", "--json").stdout.strip() == "[]"
    assert len(cluster.jobs()) == 1


def test_the_background_and_coming_back(cluster: Cluster, laptop: Laptop) -> None:
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect(r"over ssh\): http")
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("b\n")
        terminal.expect("jupyter-hpc status")
        assert terminal.wait() == 0
    (entry,) = json.loads(run(laptop, "status", "--json").stdout)
    assert entry["state"] == "ready"
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect("is connected already")
        assert terminal.wait() == 0
    assert run(laptop, "stop", "mini").returncode == 0
    assert "RUNNING" not in cluster.run("login1", ["squeue", "-h", "-o", "%T"]).stdout


def test_a_second_connect_tells_how_far_the_first_is(cluster: Cluster, laptop: Laptop) -> None:
    cluster.run(
        "login1", ["salloc", "--no-shell", "-p", "cpu", "--exclusive", "-t", "5"], user="mallory"
    )
    try:
        with connected(laptop, "mini") as session:
            waits = session.wait_for("pending")
            (event,) = map(json.loads, run(laptop, "connect", "mini", "--json").stdout.splitlines())
            assert event.keys() == waits.keys() and event["job_id"] == waits["job_id"]
            assert event["event"] == "pending" and event["reason_text"]
            assert f"Job {event['job_id']} waits" in run(laptop, "connect", "mini").stderr
            assert "connected" not in run(laptop, "connect", "mini").stderr
    finally:
        cluster.run("login1", ["scancel", "--user=mallory"])


def test_connect_opens_a_session_in_the_background_anew_when_its_job_is_over(
    cluster: Cluster, laptop: Laptop
) -> None:
    def state() -> str:
        (entry,) = json.loads(run(laptop, "status", "--json").stdout)
        return str(entry["state"])

    assert run(laptop, "connect", "mini", "--detach").returncode == 0
    (first,) = cluster.jobs()
    cluster.run("login1", ["scancel", first])
    eventually(lambda: state() == "ended")
    assert run(laptop, "connect", "mini", "--detach").returncode == 0
    assert state() == "ready" and first not in cluster.jobs()


def test_page_and_terminal_answer_one_question(cluster: Cluster, laptop: Laptop) -> None:
    """Whoever is first decides; the other's question goes, and a late answer changes nothing."""

    def ended() -> dict[str, str]:
        """Cancel the job; the question that is open then."""
        cluster.run("login1", ["scancel", cluster.jobs()[0]])
        terminal.expect(r"(?s)The job was cancelled by .*Start again\? \[y/N\]:")
        return dict(_status(laptop)["questions"])

    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect(r"over ssh\): http")
        terminal.type("\n")  # typed before it was asked: no answer
        question = ended()
        _on_page(laptop, "start", question["again"])
        terminal.expect("Answered on the page: the session is started again")
        terminal.type("\n")  # the Enter that used to drop the new session
        terminal.expect(r"over ssh\): http")
        question = ended()
        terminal.type("y\n")
        eventually(lambda: not _status(laptop)["questions"])
        with pytest.raises(ConnectError, match="Answered in the terminal"):
            _on_page(laptop, "start", question["again"])
        terminal.expect(r"over ssh\): http")
        ended()
        terminal.type("\n")
        assert terminal.wait() == 1
    eventually(lambda: _no_manager(laptop))


def test_keep_or_cancel_the_page_takes_the_menu_away(cluster: Cluster, laptop: Laptop) -> None:
    """The page cancels while the menu is open; what it asked for too late changes nothing."""
    late = {"while": "pending", "where": "page"}
    cluster.run(
        "login1", ["salloc", "--no-shell", "-p", "cpu", "--exclusive", "-t", "5"], user="mallory"
    )
    try:
        with _at(laptop, "connect", "mini", "--no-browser") as terminal:
            terminal.expect(r"Job \d+ waits: ")
            terminal.control_c()
            terminal.expect("Your choice")
            ask_manager(SessionRecord(**record(laptop, "mini")), "stop", late)
            terminal.expect("was cancelled, as asked")
            assert terminal.wait() == 0
        assert cluster.run("login1", ["squeue", "-h", "-u", "alice"]).stdout == ""
    finally:
        cluster.run("login1", ["scancel", "--user=mallory"])
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect(r"over ssh\): http")
        with pytest.raises(ConnectError, match="came too late"):
            ask_manager(SessionRecord(**record(laptop, "mini")), "stop", late)
        terminal.control_c()
        terminal.expect("Your choice")
        assert run(laptop, "disconnect", "mini").returncode == 0
        terminal.expect(r"Job \d+ stays")
        assert terminal.wait() == 0
    assert len(cluster.jobs()) == 1


def _status(laptop: Laptop) -> dict[str, Any]:
    return ask_manager(SessionRecord(**record(laptop, "mini")), "status")


def _on_page(laptop: Laptop, action: str, question: str) -> None:
    """What a click on the page's button does."""
    answer = {"question": question, "where": "page"}
    ask_manager(SessionRecord(**record(laptop, "mini")), action, answer)


@pytest.mark.faults
def test_a_long_pause_can_be_ended_at_the_terminal(cluster: Cluster, laptop: Laptop) -> None:
    def pause() -> float:
        """Seconds until the next try."""
        return float(_status(laptop)["next_try"] or 0.0) - time.time()

    node = cluster.hosts["cpu01"]
    with _at(laptop, "connect", "mini", "--no-browser", "--via", "ssh") as terminal:
        terminal.expect(r"over ssh\): http")
        node.stop("sshd")
        try:
            cluster.kill_sessions("cpu01", "alice")
            terminal.expect(r"To try now: Ctrl-C, then t\.")
            eventually(lambda: pause() > 10, seconds=90)
        finally:
            node.start("sshd")
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("t\n")
        left = pause()
        terminal.expect("Connected again", left - 2)


def test_cancelling_while_the_job_waits(cluster: Cluster, laptop: Laptop) -> None:
    cluster.run(
        "login1", ["salloc", "--no-shell", "-p", "cpu", "--exclusive", "-t", "5"], user="mallory"
    )
    try:
        with _at(laptop, "connect", "mini", "--no-browser") as terminal:
            terminal.expect(r"Job \d+ waits: ")
            terminal.control_c()
            terminal.expect("Your choice")
            terminal.type("c\n")
            terminal.expect("was cancelled, as asked")
            assert terminal.wait() == 0
        names = cluster.run("login1", ["squeue", "-h", "-o", "%u"]).stdout.split()
        assert names == ["mallory"]
    finally:
        cluster.run("login1", ["scancel", "--user=mallory"])


def test_a_closed_terminal_leaves_no_manager(cluster: Cluster, laptop: Laptop) -> None:
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect(r"over ssh\): http")
        (entry,) = json.loads(run(laptop, "status", "--json").stdout)
    eventually(lambda: _no_manager(laptop))
    assert cluster.jobs() == [entry["job_id"]]


def test_a_manager_that_is_killed_is_missed(cluster: Cluster, laptop: Laptop) -> None:
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect(r"over ssh\): http")
        (entry,) = json.loads(run(laptop, "status", "--json").stdout)
        os.kill(entry["pid"], signal.SIGKILL)
        terminal.expect("has ended without a word")
        terminal.expect(f"Job {entry['job_id']} stays")
        assert terminal.wait() == 1


def test_an_unknown_host_key_is_asked_about_once(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice", "newcomer", knows=())
    laptop.write_profile("mini")
    laptop.ssh_config.write_text(
        laptop.ssh_config.read_text().replace("StrictHostKeyChecking yes", "")
    )
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect("authenticity of host")
        terminal.expect("yes/no")
        terminal.type("yes\n")
        terminal.expect(r"over \S+\): http")
    eventually(lambda: _no_manager(laptop))
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
    cluster.run("login1", ["scancel", "--user=alice"])


def test_password_and_code(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, mfa=True)
    laptop = cluster.laptop("alice", "mfa")
    laptop.write_profile("mini")
    before = cluster.authentications("login1", "alice")
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect("[Pp]assword")
        terminal.type(f"{cluster.password}\n")
        terminal.expect("[Cc]ode")
        terminal.type(f"{cluster.code()}\n")
        terminal.expect(r"over \S+\): http")
        assert cluster.authentications("login1", "alice") == before + 1
        _page_and_terminal_ask_for_one_login(cluster, laptop, terminal)
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("l\n")
        assert terminal.wait() == 0
    _what_runs_asks_once(cluster, laptop)


def _page_and_terminal_ask_for_one_login(
    cluster: Cluster, laptop: Laptop, terminal: Terminal
) -> None:
    """Whoever is first begins the one login; the other is told, and asks for none of its own."""

    def cut() -> str:
        """End the login; the question that is open then."""
        assert cluster.kill_sessions("login1", "alice")
        terminal.expect("Press Enter when you can answer:")
        return str(_status(laptop)["questions"]["login"])

    def logged_in() -> None:
        """One login, asked for in the terminal, and no second one behind it."""
        before = cluster.authentications("login1", "alice")
        _answer_login(cluster, terminal)
        terminal.expect("Connected again")
        assert cluster.authentications("login1", "alice") == before + 1
        assert not _status(laptop)["questions"]

    question = cut()
    _on_page(laptop, "login", question)
    terminal.expect("Answered on the page")
    logged_in()

    question = cut()
    terminal.type("\n")
    eventually(lambda: not _status(laptop)["questions"])
    with pytest.raises(ConnectError, match="Answered in the terminal"):
        _on_page(laptop, "login", question)
    logged_in()

    question = cut()
    terminal.type("\n")  # at the same moment
    with contextlib.suppress(ConnectError):
        _on_page(laptop, "login", question)
    logged_in()


def _answer_login(cluster: Cluster, terminal: Terminal) -> None:
    terminal.expect("[Pp]assword")
    terminal.type(f"{cluster.password}\n")
    terminal.expect("[Cc]ode")
    terminal.type(f"{cluster.code()}\n")


def _what_runs_asks_once(cluster: Cluster, laptop: Laptop) -> None:
    """Without a connection `status --all` logs in, and asks a person once for all of it."""
    before = cluster.authentications("login1", "alice")
    (job,) = cluster.jobs()
    with _at(laptop, "status", "--all") as terminal:
        _answer_login(cluster, terminal)
        terminal.expect(f"mini: running, not connected here, job {job}")
        assert terminal.wait() == 0
    assert cluster.authentications("login1", "alice") == before + 1
    silent = run(laptop, "status", "--all")
    assert silent.returncode == 0 and "needs a login" in silent.stdout + silent.stderr
    with _at(laptop, "stop", "mini") as terminal:
        _answer_login(cluster, terminal)
        terminal.expect(f"Job {job} was cancelled, as asked")
        assert terminal.wait() == 0


def test_a_wrong_code_is_one_attempt(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, mfa=True)
    laptop = cluster.laptop("alice", "mfa")
    laptop.write_profile("mini")
    cluster.wait_until_idle(60)
    before = cluster.failed_authentications("login1", "alice")
    with _at(laptop, "connect", "mini", "--no-browser") as terminal:
        terminal.expect("[Pp]assword")
        terminal.type(f"{cluster.password}\n")
        terminal.expect("[Cc]ode")
        terminal.type("000000\n")
        terminal.expect("Error: ")
        assert terminal.wait() == 1
    assert cluster.failed_authentications("login1", "alice") == before + 1
    assert cluster.jobs() == []
    silent = run(laptop, "connect", "mini")
    assert silent.returncode == 1
    assert "terminal" in silent.stderr
