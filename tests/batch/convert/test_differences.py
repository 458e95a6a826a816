"""What a line of the notebook became is told with its change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.convert.convert import convert_text
from jupyter_hpc.batch.convert.report import Conversion, line_pairs


def converted(*sources: str, counts: tuple[int | None, ...] = ()) -> Conversion:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
        | {"execution_count": (counts or (None,) * len(sources))[number]}
        for number, source in enumerate(sources)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    return convert_text(json.dumps(notebook), "train.ipynb")


def test_each_change_has_its_line_before_and_after() -> None:
    done = converted("lr = 0.1\n%matplotlib inline\nlr", "print(lr)\n!nvidia-smi")
    pairs = [(change.cell, change.before, change.after) for change in done.changes]
    assert pairs == [
        (1, "lr = 0.1", "lr = _hpc.parameter('lr', 0.1)"),
        (1, "%matplotlib inline", "# %matplotlib inline  (dropped; figures go to files)"),
        (1, "lr", "_hpc.show(lr)"),
        (2, "!nvidia-smi", "_hpc.sh('nvidia-smi')"),
    ]
    for change in done.changes:
        assert change.after in done.script


def test_a_notebook_that_runs_as_it_is_has_no_other_lines() -> None:
    done = converted("lr = 0.1", "lr").as_notebook()
    assert [(change.before, change.after) for change in done.changes] == [("", "")]


def test_the_numbers_that_people_see_are_kept() -> None:
    done = converted("x = 1", "x", counts=(7, None))
    assert done.to_json()["executions"] == {"1": 7}


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ("a\nb\nc", "a\nB\nc", {2: ("b", "B")}),
        ("a\nb", "A1\nA2\nb", {1: ("a", "A1\nA2")}),
        ("a\nb\nc", "c", {1: ("a\nb", ""), 2: ("a\nb", "")}),
        ("a", "a\nb", {}),
    ],
)
def test_lines_are_paired_by_place(
    before: str, after: str, pairs: dict[int, tuple[str, str]]
) -> None:
    assert line_pairs(before, after) == pairs


def test_what_is_long_is_cut_and_says_so() -> None:
    (before, after) = line_pairs("x", "\n".join(map(str, range(40))))[1]
    assert before == "x" and after.endswith("\n11\n…")


def test_lines_of_a_notebook_that_is_run_are_not_those_of_the_cell(tmp_path: Path) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": []}
    cell |= {"execution_count": None, "source": "!ls"}
    inner: dict[str, Any] = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (tmp_path / "other.ipynb").write_text(json.dumps(inner))
    outer = {**inner, "cells": [{**cell, "source": "%run other.ipynb"}]}
    done = convert_text(json.dumps(outer), "train.ipynb", tmp_path)
    (of_other,) = [change for change in done.changes if change.source.startswith("other.ipynb")]
    assert (of_other.before, of_other.after) == ("", "")
