"""What a session outlives, on a real Slurm with real SSH: one session for all of it.

Short forms; the long ones are marked `faults` and run by `make faults`. In each: no hang, a true
sentence, and the session comes back by itself, with its job.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.connect.real.sessions import Session, answers, connected, pids
from tests.waiting import eventually, throughout


@pytest.fixture(scope="module")
def living(cluster: Cluster) -> Iterator[Callable[[], Session]]:
    """The one session, or the next one if a fault was too much for it."""
    laptop = cluster.laptop("alice", "outlives")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    opened: list[Session] = []
    with contextlib.ExitStack() as stack:

        def open_session() -> Session:
            if not opened or opened[-1].process.poll() is not None:
                opened.append(stack.enter_context(connected(laptop, "mini")))
                opened[-1].wait_for("ready")
            return opened[-1]

        yield open_session


@pytest.fixture
def session(living: Callable[[], Session]) -> Session:
    """The session, as good as new: what befell it before is over, and is in no event to come."""
    session = living()
    answers(session)
    news = ("reconnecting", "reconnected", "ready")
    eventually(lambda: [name for name in session.names() if name in news][-1:] != ["reconnecting"])
    return session


def _cut(cluster: Cluster) -> Callable[[], None]:
    cluster.cut("laptop")
    return lambda: cluster.restore("laptop")


def _hole(cluster: Cluster) -> Callable[[], None]:
    cluster.black_hole()
    return cluster.fill_hole


@pytest.mark.parametrize("kind", [_cut, _hole], ids=["cut", "black-hole"])
@pytest.mark.parametrize(
    "seconds",
    [
        3,
        15,
        pytest.param(5, marks=pytest.mark.faults),
        pytest.param(30, marks=pytest.mark.faults),
        pytest.param(120, marks=pytest.mark.faults),
    ],
)
def test_the_link_is_interrupted(
    cluster: Cluster, session: Session, kind: Callable[[Cluster], Callable[[], None]], seconds: int
) -> None:
    job = session.wait_for("ready")["job_id"]
    seen = len(session.events)
    restore = kind(cluster)
    try:
        event = session.wait_for("reconnecting", 10, after=seen)
        assert event["text"]
        throughout(lambda: session.process.poll() is None, seconds=max(0.0, seconds - 2))
        status, body, _ = session.get("/lab", {"Accept": "text/html"})
        assert status == 200
        assert b"Reconnecting" in body
    finally:
        restore()
    session.wait_for("reconnected", 20, after=seen)
    answers(session)
    assert session.process.poll() is None
    assert "ended" not in session.names()
    assert cluster.jobs() == [job]


@pytest.mark.parametrize("seconds", [15, pytest.param(60, marks=pytest.mark.faults)])
def test_the_laptop_sleeps(cluster: Cluster, session: Session, seconds: int) -> None:
    session.process.send_signal(signal.SIGSTOP)
    throughout(lambda: session.process.poll() is None, seconds=seconds)
    session.process.send_signal(signal.SIGCONT)
    answers(session, 20)
    assert session.process.poll() is None


@pytest.mark.parametrize("host", ["login1", "cpu01"])
def test_an_sshd_session_is_killed(cluster: Cluster, session: Session, host: str) -> None:
    seen = len(session.events)
    assert cluster.kill_sessions(host) > 0
    session.wait_for("reconnecting", 10, after=seen)
    session.wait_for("reconnected", 15, after=seen)
    answers(session)


def test_jupyter_is_killed_and_started_again(cluster: Cluster, session: Session) -> None:
    job = session.wait_for("ready")["job_id"]
    seen = len(session.events)
    (jupyter,) = pids(cluster, "cpu01", "jupyter-lab")
    cluster.run("cpu01", ["kill", "-9", jupyter])
    again = session.wait_for("ready", 40, after=seen)
    assert again["job_id"] == job
    said = [event["text"] for event in session.events[seen:] if event["event"] == "warning"]
    assert any("started again" in text for text in said)
    answers(session)


def test_the_relay_is_killed_and_kernels_live_on(cluster: Cluster, session: Session) -> None:
    seen = len(session.events)
    before = pids(cluster, "cpu01", "jupyter-lab")
    (relay,) = pids(cluster, "cpu01", "relay.py --serve")
    cluster.run("cpu01", ["kill", "-9", relay])
    session.wait_for("reconnected", 20, after=seen)
    answers(session)
    assert pids(cluster, "cpu01", "jupyter-lab") == before


@pytest.mark.parametrize("seconds", [8, pytest.param(30, marks=pytest.mark.faults)])
def test_the_controller_is_away(cluster: Cluster, session: Session, seconds: int) -> None:
    cluster.stop("login1", "slurmctld")
    try:
        throughout(lambda: "ended" not in session.names(), seconds=seconds)
        answers(session)
    finally:
        cluster.start("login1", "slurmctld")
    throughout(lambda: "ended" not in session.names(), seconds=5)
    answers(session)
    assert session.process.poll() is None
