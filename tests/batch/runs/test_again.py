"""What the dialog begins with when a run is run again."""

from __future__ import annotations

from typing import Any

from jupyter_hpc.batch.runs.again import choices_again, sources_of
from jupyter_hpc.batch.runs.registry import RecordedRun, Submit
from jupyter_hpc.batch.submit.choices import fixed_and_swept

RUNS = (
    RecordedRun("1", {"lr": 0.1, "name": "a, b", "deep": True}),
    RecordedRun("2", {"lr": 0.01, "name": "a, b", "deep": True}),
)


def submit(**members: Any) -> Submit:
    made: dict[str, Any] = {"is_sweep": True, "swept": ("lr",), "runs": RUNS, **members}
    return Submit("7", "train.ipynb", "/run", 5, is_there=True, **made)


def test_a_sweep_begins_with_what_was_typed_and_a_run_of_it_with_its_value() -> None:
    typed = {"parameters": {"lr": "0.1, 0.01"}, "request": {"gpus": "1"}, "at_once": 1}
    asked = submit(choices=typed)
    assert choices_again(asked, "") == typed
    assert choices_again(asked, "2") == {"parameters": {"lr": "0.01"}, "request": {"gpus": "1"}}
    assert typed["parameters"] == {"lr": "0.1, 0.01"}, "what is kept is not touched"


def test_without_choices_they_are_gathered_so_that_they_mean_the_same() -> None:
    asked = submit(request={"gpus": 2, "time": "60", "gpu_flag": "gres", "name": "x"}, parts=3)
    found = choices_again(asked, "")
    assert (found["request"], found["chain"]) == ({"gpus": 2, "time": "60"}, 3)
    fixed, swept = fixed_and_swept(found["parameters"])
    assert (fixed, swept) == ({"name": "'a, b'", "deep": "True"}, {"lr": ["0.1", "0.01"]})


def test_the_code_of_a_notebook_is_compared_and_not_its_outputs() -> None:
    cell = b'{"cells": [{"cell_type": "code", "source": ["a=1"], "outputs": [%s]}]}'
    assert sources_of(cell % b"") == sources_of(cell % b"3") == ["a=1"]
    assert sources_of(b"a = 1") is None
