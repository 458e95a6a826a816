"""What a session looks like on a terminal, without one."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from jupyter_hpc.cli.view import LiveView, line

_PENDING = {
    "event": "pending",
    "cluster": "mini",
    "job_id": "7",
    "reason": "Resources",
    "reason_text": "It is next in line and waits until enough nodes, CPUs or GPUs are free.",
    "estimated_start": None,
    "advice": "Cancel it and submit again with a request that fits.",
    "stuck": False,
    "text": "Job 7 waits: It is next in line and waits until enough nodes, CPUs or GPUs are free.",
}


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def view(screen: io.StringIO) -> Iterator[LiveView]:
    shown = LiveView(Console(file=screen, force_terminal=True, width=60, highlight=False))
    yield shown
    shown.close()


def _since(screen: io.StringIO, mark: int) -> str:
    return " ".join(screen.getvalue()[mark:].split())


def test_the_waiting_line_is_whole_in_a_narrow_window(view: LiveView, screen: io.StringIO) -> None:
    view.show(_PENDING)
    view.close()
    assert "GPUs are free." in _since(screen, 0)


def test_the_waiting_line_comes_back_after_a_question(view: LiveView, screen: io.StringIO) -> None:
    view.show(_PENDING)
    view.pause()
    mark = len(screen.getvalue())
    view.resume()
    view.close()
    assert "Job 7 waits" in _since(screen, mark)


def test_the_waiting_line_comes_back_after_a_warning(view: LiveView, screen: io.StringIO) -> None:
    view.show(_PENDING)
    view.show({"event": "warning", "cluster": "mini", "text": "Slurm does not answer."})
    view.close()
    text = _since(screen, 0)
    assert "Job 7 waits" in text[text.index("Slurm does not answer.") :]


def test_nothing_moves_once_the_session_is_ready(view: LiveView, screen: io.StringIO) -> None:
    view.show(_PENDING)
    view.show({"event": "running", "cluster": "mini", "text": "Job 7 has cpu01."})
    mark = len(screen.getvalue())
    view.resume()
    view.close()
    assert "waits" not in _since(screen, mark)


def test_a_job_that_never_starts_by_itself_says_what_to_do() -> None:
    assert line({**_PENDING, "stuck": True}).endswith("submit again with a request that fits.")
    assert line(_PENDING).endswith("are free.")


def test_an_estimate_is_shown_behind_the_reason() -> None:
    shown = line({**_PENDING, "estimated_start": "2126-01-01T12:00:00Z"})
    assert "are free. Slurm estimates a start at " in shown
