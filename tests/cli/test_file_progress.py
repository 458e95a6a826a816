"""What a terminal shows of a transfer: how far, how fast, how long still; and at the end."""

from __future__ import annotations

import pytest

from jupyter_hpc.cli import file_progress
from jupyter_hpc.cli.file_progress import Progress
from jupyter_hpc.connect.files.listing import Entry
from jupyter_hpc.connect.files.transfer import Outcome, Plan

LARGE = Entry("data/large.bin", "f", 1_000_000_000, 0, 0o644, "")


class Clock:
    """Time that a test moves on."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(file_progress, "time", clock)
    return clock


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Progress:
    """As a terminal has it."""
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        return Progress(where="mini:x", delete=False, sure=False, dry=False)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.rpartition("\r")[2].removeprefix("\x1b[K").strip()


def test_how_far_how_fast_and_how_long_still(
    told: Progress, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    told.planned(Plan(1, LARGE.size, 0, ()))
    clock.now += 2
    told.moved(LARGE, 100_000_000)
    assert shown(capsys) == "10 %  100 MB of 1.0 GB  50.0 MB/s  18 s left  large.bin"
    told.moved(LARGE, 100_000_000)
    assert shown(capsys) == "", "not for each block"
    clock.now += 2
    told.moved(LARGE, 600_000_000)
    assert "80 %  800 MB of 1.0 GB  200 MB/s  1 s left" in shown(capsys)


def test_what_had_arrived_before_is_not_taken_for_speed(
    told: Progress, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    told.planned(Plan(1, LARGE.size, 0, ()))
    clock.now += 5
    told.moved(LARGE, 500_000_000)
    told.cut("the connection has ended")
    assert "Cut: the connection has ended. Going on" in capsys.readouterr().err
    clock.now += 30
    told.planned(Plan(1, LARGE.size, 0, ()))
    told.kept(LARGE, 500_000_000)
    clock.now += 5
    told.moved(LARGE, 100_000_000)
    assert "60 %  600 MB of 1.0 GB  20.0 MB/s  20 s left" in shown(capsys)
    told.moved(LARGE, 400_000_000)
    clock.now += 10
    told.report(Outcome(moved=[LARGE]))
    said = "1 file copied to mini:x (1.0 GB in 50.0 s, 20.0 MB/s, verified by SHA-256).\n"
    assert capsys.readouterr().out == said
