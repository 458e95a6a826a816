"""A proposal is written into its cell and nowhere else, after a backup, or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.convert.reading import read_notebook
from jupyter_hpc.batch.resuming.applying import apply_edits, edited
from jupyter_hpc.batch.resuming.proposal import CellEdit, propose
from jupyter_hpc.errors import UsageError
from tests.batch.notebooks import AnyCell, Code, Text, notebook
from tests.batch.resuming.trainings import PLAIN

OUTPUT: dict[str, Any] = {"output_type": "stream", "name": "stdout", "text": ["1e-05\n", "ä"]}
CELLS: list[AnyCell] = [
    Text("# Größe"), PLAIN[0], PLAIN[1], Code(PLAIN[2], count=3, outputs=(OUTPUT,)),
]  # fmt: skip


def written(path: Path, *, as_lines: bool, **options: Any) -> Path:
    content = notebook(CELLS, {"x": 1e-05})
    if as_lines:
        for cell in content["cells"]:
            cell["source"] = cell["source"].splitlines(keepends=True)
    path.write_text(json.dumps(content, **options), encoding="utf-8")
    return path


def edits_of(path: Path) -> tuple[CellEdit, ...]:
    found = propose(read_notebook(path))
    assert found is not None and found.edits
    return found.edits


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize("options", [{}, {"indent": 1, "ensure_ascii": False}, {"indent": 4}])
def test_every_other_byte_stays(tmp_path: Path, as_lines: bool, options: dict[str, Any]) -> None:
    path = written(tmp_path / "a.ipynb", as_lines=as_lines, **options)
    before = path.read_bytes()
    (edit,) = edits_of(path)
    backup = apply_edits(path, [edit])
    assert backup.read_bytes() == before
    # As if Jupyter had written the notebook with the new text.
    content = json.loads(before)
    source = content["cells"][3]["source"]
    lines = edit.after.splitlines(keepends=True)
    content["cells"][3]["source"] = lines if isinstance(source, list) else edit.after
    assert path.read_bytes() == json.dumps(content, **options).encode()
    assert propose(read_notebook(path)) is None
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.before-run.ipynb", "a.ipynb"]


def test_a_second_backup_replaces_no_first(tmp_path: Path) -> None:
    path = written(tmp_path / "a.ipynb", as_lines=True)
    edits, before = edits_of(path), path.read_bytes()
    apply_edits(path, edits)
    path.write_bytes(before)
    assert apply_edits(path, edits).name == "a.before-run-1.ipynb"


def test_a_cell_that_has_changed_is_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "a.ipynb", as_lines=True)
    edits = edits_of(path)
    changed = path.read_text(encoding="utf-8").replace("range(3)", "range(4)")
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(UsageError, match=r"Cell 4 of .* is no longer as it was"):
        apply_edits(path, edits)
    assert path.read_text(encoding="utf-8") == changed
    assert [each.name for each in tmp_path.iterdir()] == ["a.ipynb"]


def test_a_change_in_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.ipynb", as_lines=True)
    edits = edits_of(path)

    def meanwhile(*arguments: Any) -> None:
        path.write_bytes(path.read_bytes() + b"\n")

    monkeypatch.setattr("jupyter_hpc.batch.resuming.applying.shutil.copymode", meanwhile)
    with pytest.raises(UsageError, match="was changed meanwhile"):
        apply_edits(path, edits)
    assert path.read_bytes().endswith(b"}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["a.ipynb"]


def test_a_read_only_notebook_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.ipynb", as_lines=True)
    before, edits = path.read_bytes(), edits_of(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(UsageError, match="cannot be changed: it is read-only"):
        apply_edits(path, edits)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.ipynb"]


def test_a_notebook_of_an_old_format_is_not_rewritten() -> None:
    old = {
        "nbformat": 3, "nbformat_minor": 0, "metadata": {},
        "worksheets": [{"cells": [{"cell_type": "code", "input": "a", "language": "python",
                                   "outputs": [], "metadata": {}}], "metadata": {}}],
    }  # fmt: skip
    with pytest.raises(UsageError, match="written in a way that is not known"):
        edited(json.dumps(old).encode(), "a.ipynb", [CellEdit(1, "a", "b")])
