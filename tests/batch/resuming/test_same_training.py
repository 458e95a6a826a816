"""A training with the proposed lines, ended again and again, is the one without them."""

from __future__ import annotations

import importlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.convert.masked import masked
from jupyter_hpc.batch.convert.reading import Notebook, parse_notebook
from jupyter_hpc.batch.resuming.proposal import propose
from tests.batch.notebooks import AnyCell, notebook
from tests.batch.resuming.trainings import TRAININGS
from tests.training.conftest import torch as torch


def parsed(cells: list[str]) -> Notebook:
    rows: list[AnyCell] = [*cells]
    return parse_notebook(json.dumps(notebook(rows)), "a.ipynb")


def patched(cells: list[str]) -> list[str]:
    """The cells with the change that is proposed for them."""
    found = propose(parsed(cells))
    assert found is not None and found.edits, found
    fresh = list(cells)
    for edit in found.edits:
        assert fresh[edit.cell - 1] == edit.before
        fresh[edit.cell - 1] = edit.after
    return fresh


def run_cells(cells: list[str], **names: Any) -> dict[str, Any]:
    """What the names are in the end; SystemExit where the training wants to go on."""
    space: dict[str, Any] = {"__name__": "__main__", **names}
    for cell in cells:
        code = masked(cell)
        assert code is not None
        exec(compile(code.text, "cell", "exec"), space)
    return space


def same(torch: Any, left: Any, right: Any) -> bool:
    if hasattr(left, "state_dict"):
        return same(torch, left.state_dict(), right.state_dict())
    if isinstance(left, torch.Tensor):
        return bool(torch.equal(left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(torch, left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(lambda a, b: same(torch, a, b), left, right))
    return bool(left == right)


@pytest.mark.parametrize("steps", [1, 4, 7])
@pytest.mark.parametrize("name", TRAININGS)
def test_what_is_ended_again_and_again_ends_as_if_it_never_was(
    name: str,
    steps: int,
    torch: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells, compared = TRAININGS[name]
    monkeypatch.chdir(tmp_path)
    whole = run_cells(cells)
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(tmp_path / "checkpoints"))
    fresh = patched(cells)
    taken = 0

    def ended(*arguments: Any) -> None:
        nonlocal taken
        taken += 1
        if taken % steps == 0:
            os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    hooks = importlib.import_module("torch.optim.optimizer")
    hook = hooks.register_optimizer_step_post_hook(ended)
    parts = 0
    try:
        while True:
            parts += 1
            assert parts < 40, "it does not come to its end"
            try:
                result = run_cells(fresh)
                break
            except SystemExit as end:
                assert end.code == 85
    finally:
        hook.remove()
        signal.signal(signal.SIGUSR1, before)
    assert parts > 1
    for each in compared:
        assert same(torch, whole[each], result[each]), each
    # Applied once, nothing more is proposed.
    assert propose(parsed(fresh)) is None
