"""Every command that the documentation shows exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from tests.tools import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(document: Path) -> list[list[str]]:
    """The command lines of a document's shell blocks and of its inline code."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|console|shell|bash)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`((?:make|jupyter-hpc|jupyter hpc) [^`]+)`", text)
    words = [line.strip().removeprefix("$ ").split() for line in lines]
    return [line for line in words if line and not line[0].startswith("#")]


def named(line: list[str]) -> list[str]:
    """The words that must be names: options, places and placeholders left out."""
    return [word for word in line if re.fullmatch(r"[a-z][a-z-]*", word)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for line in commands(document):
        if line[0] == "make":
            assert set(named(line[1:2])) <= targets, line
        elif line[0] == "jupyter-hpc" or line[:2] == ["jupyter", "hpc"]:
            assert_subcommand(line[1:] if line[0] == "jupyter-hpc" else line[2:])


def assert_subcommand(words: list[str]) -> None:
    from jupyter_hpc.cli.main import cli

    for word in named(words[:1]):
        assert word in cli.list_commands(click.Context(cli)), f"jupyter-hpc {word}"


def test_tests_that_prove_a_step_exist() -> None:
    """docs/steps.md names them from tests/ on, in the last column."""
    rows = [
        line.split("|")[4]
        for line in (ROOT / "docs/steps.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| step")
    ]
    named = {name for row in rows for name in re.findall("`([^`]+)`", row)}
    assert len(named) > 50
    assert sorted(name for name in named if not (ROOT / "tests" / name).exists()) == []


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"
