"""Rules of the house that no other tool checks: who prints, who speaks SSH, how long a file is."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import ROOT

MAX_LINES = 400

#: Rooms whose files are programs of their own: they print because that is their output.
PROGRAMS = ("cli", "demo", "relay", "shipped", "runtime")


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows, or all of them in a tree without git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    if listed.returncode == 0:
        files = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        files = [file for pattern in patterns for file in ROOT.rglob(pattern)]
    return [file for file in files if file.is_file()]


def package_modules() -> list[Path]:
    return [file for file in tracked("*.py") if file.is_relative_to(ROOT / "jupyter_hpc")]


def room(file: Path) -> tuple[str, ...]:
    return file.relative_to(ROOT / "jupyter_hpc").parts


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0]


def test_no_module_is_too_long() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in tracked("jupyter_hpc/*.py", "labextension/src/*.ts", "labextension/src/*.tsx")
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"split these, {MAX_LINES} lines are enough for one purpose: {long}"


def test_only_the_ssh_modules_and_the_demo_speak_ssh() -> None:
    speakers = {
        room(file)
        for file in package_modules()
        if "asyncssh" in imported(ast.parse(file.read_text(encoding="utf-8")))
    }
    allowed = {parts for parts in speakers if parts[0] == "demo" or parts[:2] == ("connect", "ssh")}
    assert speakers == allowed


def test_only_programs_print() -> None:
    printing = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in package_modules()
        if not set(room(file)) & set(PROGRAMS)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "input", "breakpoint")
    ]
    assert printing == []


def test_processes_are_started_by_the_runner() -> None:
    starters = {
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in package_modules()
        if file.name != "runner.py" and not set(room(file)) & set(PROGRAMS) - {"cli"}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("create_subprocess_exec", "create_subprocess_shell", "Popen", "system")
        and not (isinstance(node.value, ast.Name) and node.value.id == "platform")
    }
    assert starters == set()


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX"])
def test_no_promises_are_left(word: str) -> None:
    here = Path(__file__)
    found = [
        str(file.relative_to(ROOT))
        for file in tracked("*.py", "*.ts", "*.tsx", "*.sh", "*.md", "*.toml", "Makefile")
        if file != here and word in file.read_text(encoding="utf-8").split()
    ]
    assert found == []
