"""What the lines of the node say, by what the server in the job has answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc import __version__
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.doctor.node import NodeCheck
from tests.connect.doctor.looking import Lines, profile_for

_FINE = {
    "answered": ["yes"],
    "jupyterlab": ["4.4.1"],
    "python": ["3.11.2"],
    "jupyter_hpc": [__version__],
    "extension": ["200"],
}


def look(folder: str = "/tmp/jh-x", **fields: str) -> Lines:
    report = Report(lambda check: None)
    nothing: Any = SimpleNamespace()
    values = {"login": {"host": ("login1",)}, "environment": {"setup": ("source lab",)}}
    check = NodeCheck(profile_for(values), nothing, nothing, nothing, report)
    address: Any = SimpleNamespace(folder=folder)
    check._say_server(address, {**_FINE, **{name: [text] for name, text in fields.items()}})
    lines = Lines()
    lines.update(report.checks)
    return lines


def test_a_server_that_is_fine() -> None:
    lines = look()
    assert lines.not_ok == {} and "63 of 107 bytes" in lines["socket"].text, lines
    assert f"Here jupyter-hpc {__version__}" in lines["versions"].text


def test_a_path_that_is_too_long_for_sockets() -> None:
    lines = look("/tmp/" + "x" * 80)
    assert lines.failed == ["socket"] and "107 are allowed" in lines["socket"].text
    assert "JUPYTER_HPC_NODE_TMP" in lines["socket"].fix


def test_a_server_that_does_not_answer() -> None:
    lines = look(answered="", silent="timed out")
    assert lines.failed == ["jupyter"] and "does not answer: timed out" in lines["jupyter"].text
    assert lines.outcome("extension") == lines.outcome("versions") == "skipped"


@pytest.mark.parametrize(
    ("version", "extension", "outcome", "words"),
    [
        ("", "404", "failed", "is not installed"),
        ("0.0.1", "200", "failed", "is older than"),
        ("99.0", "200", "note", "is newer than"),
        (__version__, "404", "failed", "its panels do not answer"),
        ("nonsense", "200", "ok", "answers"),
    ],
)
def test_the_extension(version: str, extension: str, outcome: str, words: str) -> None:
    lines = look(jupyter_hpc=version, extension=extension)
    assert lines.outcome("extension") == outcome and words in lines["extension"].text
    if outcome == "failed" and not words.startswith("its"):
        assert lines["extension"].fix.startswith("On login1: source lab && pip install")
