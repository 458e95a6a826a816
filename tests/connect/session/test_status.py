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
    Pending,
    PersonNeeded,
    Ready,
    Reconnected,
    Reconnecting,
    Running,
    Starting,
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
