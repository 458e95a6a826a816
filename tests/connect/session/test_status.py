"""The board that the page, `status` and a second connect read."""

from __future__ import annotations

import time

import pytest

from jupyter_hpc.connect.events import (
    Authenticating,
    Ended,
    Event,
    Pending,
    Ready,
    Reconnecting,
    Starting,
)
from jupyter_hpc.connect.session.status import Board, event_of


@pytest.mark.parametrize(
    "event",
    [
        Authenticating("login1"),
        Pending("7", "Priority", "Others are ahead.", 1790000000.0),
        Starting("7", "cpu01"),
        Ready("http://localhost:24000/lab", 24000, "7", "cpu01", "ssh"),
        Reconnecting("The connection is interrupted."),
        Ended("TIMEOUT", "time_limit", "The time limit was reached."),
    ],
)
def test_who_comes_late_is_told_the_last_event(event: Event) -> None:
    board = Board("mini", "Mini", 24000)
    board.take(event)
    assert event_of(board.snapshot()) == event


def test_a_session_that_is_over_has_no_time_left() -> None:
    board = Board("mini", "Mini", 24000)
    board.take(Starting("7", "cpu01"))
    board.ends_at = time.time() + 600
    board.take(Ended("CANCELLED", "cancelled", "It was cancelled."))
    assert board.snapshot()["ends_at"] is None
