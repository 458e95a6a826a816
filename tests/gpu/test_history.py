"""The ring buffer: 30 minutes at 1 s, then 12 hours at 30 s."""

from __future__ import annotations

import itertools

import pytest

from jupyter_hpc.gpu.history import COARSE_STEP_SECONDS, History, HistoryView
from jupyter_hpc.gpu.sample import GpuReading, Sample

HOUR = 3600.0


def sample(time: float, *loads: float | None) -> Sample:
    return Sample(
        time,
        tuple(
            GpuReading(id=f"g{index}", index=index, name="x", load=load, memory_total=8)
            for index, load in enumerate(loads)
        ),
    )


def filled(seconds: int, load: float = 50.0) -> History:
    history = History()
    for second in range(seconds):
        history.append(sample(float(second), load))
    return history


def loads(view: HistoryView) -> list[float | None]:
    return view.gpus[0].load


def test_an_empty_history_has_no_rows() -> None:
    assert History().view(600, 600, 0.0) == HistoryView([], [])


def test_the_last_minutes_are_complete() -> None:
    history = History()
    for second in range(120):
        history.append(sample(float(second), second % 100))
    view = history.view(10, 600, now=119.0)
    assert view.times == [float(second) for second in range(109, 120)]
    assert loads(view) == [second % 100 for second in range(109, 120)]


def test_half_an_hour_at_one_second_then_half_a_minute() -> None:
    view = filled(3 * 3600).view(12 * HOUR, 5000, now=3 * HOUR)
    fine = [time for time in view.times if time >= 3 * HOUR - 1800]
    coarse = [time for time in view.times if time < 3 * HOUR - 1800]
    assert len(fine) == 1800
    assert {late - early for early, late in itertools.pairwise(coarse)} == {COARSE_STEP_SECONDS}
    assert len(coarse) == pytest.approx(2.5 * 3600 / 30, abs=2)
    assert set(loads(view)) == {50.0}


def test_times_never_go_back_or_repeat() -> None:
    view = filled(2 * 3600).view(12 * HOUR, 5000, now=2 * HOUR)
    assert all(early < late for early, late in zip(view.times, view.times[1:], strict=False))


def test_older_than_twelve_hours_is_forgotten() -> None:
    history = History(interval=30.0)
    for step in range(20 * 120):
        history.append(sample(step * 30.0, 1.0))
    view = history.view(48 * HOUR, 5000, now=20 * HOUR)
    assert view.times[0] >= 20 * HOUR - 12.6 * HOUR


def test_a_coarse_row_is_the_mean_of_its_seconds() -> None:
    history = History()
    for second in range(4000):
        history.append(sample(float(second), 100.0 if second % 2 else 0.0))
    oldest = loads(history.view(12 * HOUR, 5000, now=4000.0))[0]
    assert oldest == 50.0


def test_thinning_keeps_mean_and_bounds_the_rows() -> None:
    history = History()
    for second in range(1000):
        history.append(sample(float(second), float(second % 10)))
    view = history.view(2000, 50, now=1000.0)
    values = loads(view)
    assert 45 <= len(values) <= 50
    assert all(value is not None and 4.0 <= value <= 5.0 for value in values)


def test_missing_values_are_gaps_not_zeros() -> None:
    history = History()
    history.append(sample(0.0, 10.0))
    history.append(sample(1.0, None))
    history.append(sample(2.0, 30.0))
    assert loads(history.view(60, 600, now=2.0)) == [10.0, None, 30.0]


def test_a_gpu_that_appears_later_has_gaps_before() -> None:
    history = History()
    history.append(sample(0.0, 1.0))
    history.append(sample(1.0, 1.0, 2.0))
    view = history.view(60, 600, now=1.0)
    assert [gpu.load for gpu in view.gpus] == [[1.0, 1.0], [None, 2.0]]


def test_idle_since_the_first_quiet_sample() -> None:
    history = History()
    for second, load in enumerate([90.0, 0.0, 1.0, 0.0]):
        history.append(sample(float(second), load))
    assert history.idle_since("g0") == 1.0
    history.append(sample(4.0, 50.0))
    assert history.idle_since("g0") is None


def test_an_unknown_load_is_not_called_idle() -> None:
    history = History()
    history.append(sample(0.0, None))
    assert history.idle_since("g0") is None
