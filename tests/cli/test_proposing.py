"""`submit --propose` and `--apply`, which need no cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jupyter_hpc.batch.convert.reading import read_notebook
from jupyter_hpc.batch.resuming.proposal import propose
from jupyter_hpc.cli.submit import submit
from jupyter_hpc.errors import UsageError
from tests.batch.notebooks import write_notebook
from tests.batch.resuming.trainings import PLAIN


def run(*words: str) -> Result:
    return CliRunner().invoke(submit, words, standalone_mode=False)


def test_a_diff_is_shown_and_written_once(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a b.ipynb", PLAIN)
    before = path.read_bytes()
    shown = run(str(path), "--propose")
    assert shown.return_value == 0 and path.read_bytes() == before
    assert shown.stdout.startswith("--- a b.ipynb, cell 3\n")
    assert "\n+        running = run.state" in shown.stdout
    assert f"submit '{path}' --apply" in shown.stderr
    written = run(str(path), "--apply")
    assert written.return_value == 0 and "a b.before-run.ipynb" in written.stderr
    assert propose(read_notebook(path)) is None
    again = path.read_bytes()
    assert "Nothing to propose" in run(str(path), "--apply").stderr
    assert path.read_bytes() == again and json.loads(again)["cells"][0]["source"] == PLAIN[0]


def test_what_is_not_sure_is_shown_and_never_written(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", [*PLAIN, PLAIN[2]])
    shown = run(str(path), "--propose")
    assert shown.stdout.startswith("from jupyter_hpc.training import Run\n")
    assert "several trainings" in shown.stderr
    before = path.read_bytes()
    with pytest.raises(UsageError, match="No change is proposed"):
        CliRunner().invoke(submit, [str(path), "--apply"], standalone_mode=False,
                           catch_exceptions=False)  # fmt: skip
    assert path.read_bytes() == before


def test_scripts_are_refused() -> None:
    with pytest.raises(UsageError, match="one notebook"):
        CliRunner().invoke(submit, ["a.py", "--propose"], standalone_mode=False,
                           catch_exceptions=False)  # fmt: skip
