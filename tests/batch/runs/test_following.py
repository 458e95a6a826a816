"""Curves and advance of a run that grows: only what is new is read, and nothing is told twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runs import following
from jupyter_hpc.batch.runs.advance import Advance, all_epochs
from jupyter_hpc.batch.runs.following import FollowedRun, FollowedRuns
from jupyter_hpc.batch.runtime.runs import series
from jupyter_hpc.batch.runtime.runs.series import Growth, series_of
from tests.batch.runs.test_registry import put


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def curves(run: FollowedRun) -> dict[str, Any]:
    run.look()
    return dict(run.series(600).curves)


def test_a_log_that_grows_is_read_from_where_it_ended(tmp_path: Path) -> None:
    run, log = FollowedRuns().of(tmp_path, ""), tmp_path / "logs/7.out"
    assert curves(run) == {}
    append(log, "epoch 1 loss: 4\nepoch 2 loss: 3\nepoch 3 lo")
    assert curves(run) == {"loss": [(1, 4), (2, 3)]}
    append(log, "ss: 2\nepoch 4 loss: 1")
    assert curves(run) == {"loss": [(1, 4), (2, 3), (3, 2)]}, "the last line may go on"
    put(tmp_path / "output/state.json", {"code": 0})
    assert curves(run)["loss"][-1] == (4, 1)
    assert curves(run) == series_of(tmp_path, "", tmp_path / "output", 600).curves


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, log = FollowedRuns().of(tmp_path, ""), tmp_path / "logs/7.out"
    append(log, "loss: 3\nloss: 2\n")
    assert curves(run) == {"loss": [(1, 3), (2, 2)]}
    told: list[str] = []
    monkeypatch.setattr(Growth, "add_line", lambda _, line: told.append(line))
    append(log, "loss: 1\n")
    curves(run)
    assert told == ["loss: 1"]


@pytest.mark.parametrize("how", ["shorter", "another"])
def test_a_log_that_is_another_one_begins_anew(tmp_path: Path, how: str) -> None:
    run, log = FollowedRuns().of(tmp_path, ""), tmp_path / "logs/7.out"
    append(log, "epoch 1 loss: 9\nepoch 2 loss: 8\n")
    curves(run)
    if how == "another":
        (tmp_path / "new").write_text("epoch 1 loss: 2\nepoch 2 loss: 1\nepoch 3 loss: 0\n")
        (tmp_path / "new").replace(log)
    else:
        log.write_text("epoch 1 loss: 2\n")
    assert curves(run) == series_of(tmp_path, "", tmp_path / "output", 600).curves


def test_metrics_that_are_taken_back_are_forgotten(tmp_path: Path) -> None:
    run, file = FollowedRuns().of(tmp_path, ""), tmp_path / "output/metrics.jsonl"
    rows = [json.dumps({"epoch": n, "step": n, "loss": n}) + "\n" for n in range(4)]
    append(file, "".join(rows))
    assert len(curves(run)["loss"]) == 4
    (tmp_path / "new").write_text("".join(rows[:2]))
    (tmp_path / "new").replace(file)
    assert curves(run) == {"loss": [(0, 0), (1, 1)]}
    file.unlink()
    assert curves(run) == {}


def test_of_a_long_log_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MAX_LOG_BYTES", 200)
    append(tmp_path / "logs/7.out", "".join(f"epoch {n} loss: {n}\n" for n in range(100)))
    found = curves(FollowedRuns().of(tmp_path, ""))["loss"]
    assert (found[0], found[-1]) == ((0, 0), (99, 99))
    assert len(found) < 20


def test_a_pipe_in_the_place_of_a_log_is_no_reason_to_wait(tmp_path: Path) -> None:
    import os

    (tmp_path / "logs").mkdir()
    os.mkfifo(tmp_path / "logs/7.out")
    assert curves(FollowedRuns().of(tmp_path, "")) == {}


def test_a_log_of_days_needs_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MAX_KEPT_POINTS", 10)
    monkeypatch.setattr(series, "MAX_NAMES", 3)
    growth = Growth()
    for number in range(1000):
        growth.add_line(f"loss: {number}, n{number}: 1")
    found = growth.series(600).curves
    assert list(found) == ["loss"]
    assert len(found["loss"]) < 12
    assert (found["loss"][0], found["loss"][-1]) == ((1, 0), (1000, 999))
    for number in range(1000):
        growth.add_line(f"epoch {number} loss: {number}")
    found = growth.series(600).curves
    assert len(found["loss"]) <= 11
    assert (found["loss"][0], found["loss"][-1]) == ((0, 0), (999, 999))


def test_the_runs_looked_at_longest_ago_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MAX_FOLLOWED", 2)
    runs = FollowedRuns()
    first = runs.of(tmp_path, "1")
    assert runs.of(tmp_path, "1") is first
    runs.of(tmp_path, "2")
    runs.of(tmp_path, "3")
    assert runs.of(tmp_path, "1") is not first


def told(*lines: str) -> Advance:
    """Each line a hundred seconds after the one before, from 1100 on."""
    advance = Advance()
    for number, line in enumerate(lines, 1):
        advance.add_line(line, 1000.0 + 100 * number)
    return advance


@pytest.mark.parametrize(
    ("lines", "unit", "done", "of"),
    [
        (["epoch 1/10 loss: 3", "epoch 2/10 loss: 2"], "epoch", 2, 10),
        (["Epoch 0 of 4, loss=3", "Epoch 1 of 4, loss=2"], "epoch", 2, 4),
        (["Epoch 1/3", " 10/10 - loss: 0.1", "Epoch 2/3"], "epoch", 1, 3),
        (["Epoch 0:  50%|##| 1/2 [00:01, loss=3]"], "epoch", 0.5, None),
        (["Epoch 2:  25%|##| 1/4 [00:01, loss=3]"], "epoch", 1.25, None),
        (["  5%|#| 5/100 [00:01<00:02]", " 45%|###| 45/100"], "percent", 45, 100),
        (["100%|###| download", "  3%|#| train"], "", 3, None),
        (["reading", "no numbers"], "", 0, None),
    ],
)
def test_how_far_a_run_is(lines: list[str], unit: str, done: float, of: float | None) -> None:
    advance = told(*lines)
    assert (advance.unit, advance.done, advance.of) == (unit, done, of)


def test_the_end_is_estimated_from_what_is_done() -> None:
    advance = told("epoch 1/10 loss: 3", "epoch 2/10 loss: 2")
    assert advance.ends(1000.0, 10) == 1000 + 200 / 2 * 10
    assert advance.ends(None, 10) is None
    assert advance.ends(1000.0, None) is None
    assert told("Epoch 1/10").ends(1000.0, 10) is None, "nothing is done yet"


def test_a_part_that_goes_on_is_measured_by_its_own_work() -> None:
    advance = told(*(f"epoch {n}/10 loss: 1" for n in range(1, 6)))
    advance.begin_part()
    advance.add_line("epoch 5/10 loss: 1", 5100.0)
    assert advance.ends(5000.0, 10) == 5000 + 100 * 6
    advance.add_line("epoch 6/10 loss: 1", 5200.0)
    assert (advance.done, advance.ends(5000.0, 10)) == (6, 5000 + 200 / 2 * 6)


def test_metrics_tell_of_epochs_too() -> None:
    advance = Advance()
    for epoch in range(3):
        advance.add_row(json.dumps({"epoch": epoch, "step": 10, "loss": 1}), 1000.0 + epoch)
    advance.add_row('{"epoch": 3, "st', 1.0)
    advance.add_line("epoch 3/9 loss: 1", 1003.0)
    assert (advance.unit, advance.done, advance.of) == ("epoch", 3, 9)


def test_the_number_of_epochs_may_be_a_parameter() -> None:
    assert all_epochs({"lr": 1, "EPOCHS": 30}) == 30
    assert all_epochs({"epochs": True, "num_epochs": "3", "max_epochs": 0}) is None
