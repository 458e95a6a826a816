"""What the page, `status` and a second connect read of a session."""

from __future__ import annotations

import time

import pytest

from jupyter_hpc.connect.events import (
    Answered,
    Asked,
    Authenticating,
    Ended,
    Event,
    JupyterEnded,
    OutOfMemory,
    Pending,
    PersonNeeded,
    Ready,
    Reconnected,
    Reconnecting,
    Running,
    Starting,
    TimeLimitMoved,
    TimeLimitNear,
    Warned,
)
from jupyter_hpc.connect.sentences import sentence
from jupyter_hpc.connect.session.status import SessionStatus

_PENDING = Pending("7", "Priority", "Others are ahead.", 1790000000.0, "Ask for less.")
_READY = Ready("http://localhost:24000/lab", 24000, "7", "cpu01", "ssh")


@pytest.fixture
def status() -> SessionStatus:
    return SessionStatus("mini", "Mini", 24000)


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (Authenticating("login1"), "authenticating"),
        (_PENDING, "pending"),
        (Running("7", "cpu01"), "starting"),
        (Starting("7", "cpu01"), "starting"),
        (_READY, "ready"),
        (Reconnecting("The connection is interrupted."), "reconnecting"),
        (Ended("TIMEOUT", "time_limit", "The time limit was reached."), "ended"),
    ],
)
def test_who_comes_late_is_told_the_last_event(
    status: SessionStatus, event: Event, state: str
) -> None:
    status.take(event)
    shown = status.snapshot()
    assert (shown["state"], shown["text"]) == (state, sentence(event))
    assert shown["event"]["event"] == event.name and shown["event"]["cluster"] == "mini"


def test_a_waiting_job_is_shown_with_its_advice(status: SessionStatus) -> None:
    status.take(_PENDING)
    shown = status.snapshot()
    assert (shown["job_id"], shown["reason"], shown["advice"]) == ("7", "Priority", "Ask for less.")
    assert shown["estimated_start"] == 1790000000.0
    status.take(Starting("7", "cpu01"))
    assert status.snapshot()["advice"] == "" and status.snapshot()["estimated_start"] is None


@pytest.mark.parametrize("before", [_PENDING, _READY])
def test_after_an_outage_all_is_as_before(status: SessionStatus, before: Event) -> None:
    status.take(before)
    shown = status.snapshot()
    status.take(Reconnecting("Away."))
    status.take(Reconnecting("Away.", "No route."))
    assert status.snapshot()["text"] == "Away. Still trying, because: No route."
    status.take(Reconnected(3.0))
    again = status.snapshot()
    assert {**again, "since": 0, "event": 0} == {**shown, "since": 0, "event": 0}


def test_a_needed_person_is_shown_until_all_is_well(status: SessionStatus) -> None:
    status.take(_READY)
    status.take(PersonNeeded("Log in again."))
    assert status.snapshot()["needs_person"] == "Log in again."
    assert status.snapshot()["warnings"] == [], "it would be there twice, and stay"
    status.take(Reconnected(3.0))
    assert status.snapshot()["needs_person"] == ""


def test_warnings_about_one_thing_do_not_pile_up(status: SessionStatus) -> None:
    status.take(_READY)
    status.take(TimeLimitNear("The time limit comes in 30 minutes.", 30))
    status.take(Warned("Something else."))
    status.take(TimeLimitNear("The time limit comes in 10 minutes.", 10))
    status.take(OutOfMemory("The kernel of a was ended.", ("a",), None))
    status.take(OutOfMemory("The kernel of b was ended.", ("b",), None))
    status.take(Warned("Something else."))
    assert status.snapshot()["warnings"] == [
        "The time limit comes in 10 minutes.",
        "The kernel of b was ended.",
        "Something else.",
    ]
    status.take(TimeLimitMoved("The time limit was extended."))
    assert status.snapshot()["warnings"][-1] == "The time limit was extended."
    assert len(status.snapshot()["warnings"]) == 3


def test_a_jupyter_that_ran_out_of_memory_is_remembered(status: SessionStatus) -> None:
    status.take(JupyterEnded("Jupyter ended with exit code 1.", "failed"))
    snapshot = status.snapshot()
    assert snapshot["server_ended"]["text"] == "Jupyter ended with exit code 1."
    assert snapshot["out_of_memory"] is None
    status.take(JupyterEnded("The memory was full.", "out_of_memory"))
    status.take(_READY)
    snapshot = status.snapshot()
    assert snapshot["server_ended"] == snapshot["out_of_memory"]
    assert snapshot["out_of_memory"]["text"] == "The memory was full."


def test_the_newest_warnings_stay(status: SessionStatus) -> None:
    for number in range(9):
        status.take(Warned(f"warning {number}"))
    assert status.snapshot()["warnings"] == [f"warning {number}" for number in range(4, 9)]
    assert status.snapshot()["state"] == "starting"


def test_a_session_that_is_over_has_no_time_left(status: SessionStatus) -> None:
    status.take(Starting("7", "cpu01"))
    status.ends_at = time.time() + 600
    status.take(Warned("The job's time limit comes in 12 minutes."))
    status.take(Ended("CANCELLED", "cancelled", "It was cancelled."))
    assert status.snapshot()["ends_at"] is None
    assert status.snapshot()["ended"] == {"state": "CANCELLED", "cause": "cancelled"}
    assert status.snapshot()["warnings"] == [], "they were about the job that is over"


def test_open_questions_are_shown_until_they_are_answered(status: SessionStatus) -> None:
    status.take(Ended("TIMEOUT", "time_limit"))
    status.take(Asked("again-1", "again"))
    assert status.snapshot()["questions"] == {"again": "again-1"}
    assert status.snapshot()["state"] == "ended"
    status.take(Answered("again-1", "again", "again", "page"))
    assert status.snapshot()["questions"] == {}
