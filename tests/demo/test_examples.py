"""The notebooks of the demo: whole, small, without outputs, and right without torch."""

from __future__ import annotations

import ast
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_hpc.batch.convert.convert import Options, convert_notebook
from jupyter_hpc.batch.convert.reading import parse_notebook
from jupyter_hpc.batch.preflight.long_runs import default_until, never_resumes
from jupyter_hpc.batch.resuming.proposal import propose
from jupyter_hpc.demo.examples import WELCOME, bring_notebooks

NAMES = {"welcome.ipynb", "train-and-resume.ipynb", "sweep.ipynb", "two-nodes.ipynb"}


def content(name: str) -> dict[str, Any]:
    return dict(json.loads((files("jupyter_hpc.demo") / "notebooks" / name).read_bytes()))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_is_whole_and_clean(name: str, tmp_path: Path) -> None:
    data = content(name)
    nbformat.validate(data)
    assert len(json.dumps(data)) < 10_000
    for cell in data["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None
            ast.parse("".join(cell["source"]))
    notebook = parse_notebook(json.dumps(data), name)
    assert convert_notebook(notebook, tmp_path, Options()).ok
    assert propose(notebook) is None


def test_the_welcome_leads_to_the_others_with_the_panel_open() -> None:
    text = json.dumps(content(WELCOME))
    for name in NAMES - {WELCOME}:
        assert f"({name})" in text
    assert content(WELCOME)["metadata"]["jupyter-hpc"] == {"panel": "open"}


def test_the_training_is_seen_to_go_on(tmp_path: Path) -> None:
    notebook = parse_notebook(json.dumps(content("train-and-resume.ipynb")), "a.ipynb")
    script = convert_notebook(notebook, tmp_path, Options()).script
    assert default_until(script) == "done" and not never_resumes(script)


def test_what_the_user_has_changed_stays(tmp_path: Path) -> None:
    (tmp_path / "sweep.ipynb").write_text("mine")
    bring_notebooks(tmp_path)
    bring_notebooks(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == NAMES
    assert (tmp_path / "sweep.ipynb").read_text() == "mine"


def test_parts_of_the_training_are_the_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run as its jobs do, without PyTorch, as in a fresh environment."""
    import matplotlib

    matplotlib.use("agg")
    code = ["".join(cell["source"]) for cell in content("train-and-resume.ipynb")["cells"]
            if cell["cell_type"] == "code"]  # fmt: skip
    monkeypatch.setitem(__import__("sys").modules, "torch", None)

    def run(folder: Path, share: int) -> dict[str, Any]:
        monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(folder))
        space: dict[str, Any] = {}
        for cell in code:
            exec(
                cell.replace("SHARE = 10", f"SHARE = {share}")
                .replace("PAUSE = 0.1", "PAUSE = 0")
                .replace("EPOCHS = 30", "EPOCHS = 6")
                .replace("range(100)", "range(5)"),
                space,
            )
        return space

    whole = run(tmp_path / "whole", 6)
    for _ in range(2):
        assert not (tmp_path / "parts" / "DONE").exists()
        part = run(tmp_path / "parts", 3)
    assert (tmp_path / "parts" / "DONE").exists()
    assert part["losses"] == whole["losses"] and len(part["losses"]) == 6
    assert all((part["weights"][name] == whole["weights"][name]).all() for name in part["weights"])
