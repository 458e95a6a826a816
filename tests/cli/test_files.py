"""What push, pull and sync refuse before anything is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from jupyter_hpc.cli.files import pull, push, sync
from jupyter_hpc.errors import UsageError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_text("1")
    (tmp_path / "x").write_text("2")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        (push, ["x", "there"], "'there' names no cluster"),
        (push, ["x", "C:there"], "names no cluster"),
        (push, ["nothing", "demo:"], "There is no 'nothing' here"),
        (push, ["x", "a/x", "demo:"], "Two of the sources are called 'x'"),
        (push, ["x", "no-such-cluster:"], "no-such-cluster"),
        (pull, ["demo:x", "other:x", "."], "on one cluster"),
        (pull, ["demo:x", "nowhere/x"], "There is no folder"),
        (sync, ["a", "b"], "One of SRC and DST"),
        (sync, ["demo:a", "demo:b"], "One of SRC and DST"),
        (sync, ["x", "demo:b"], "'x' is not a folder here"),
    ],
)
def test_wrong_use_is_said_and_changes_nothing(
    command: object, words: list[str], sentence: str
) -> None:
    before = sorted(os.listdir("."))
    done = CliRunner().invoke(command, words)  # type: ignore[arg-type]
    assert isinstance(done.exception, UsageError) and sentence in str(done.exception)
    assert sorted(os.listdir(".")) == before
