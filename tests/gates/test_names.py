"""One word for one thing, and the field's: words of our own that were retired stay away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "jupyter_hpc"

#: What no name of a module, class, function, constant or attribute may hold -> what to say.
RETIRED = {
    r"gates?": "proxy",
    r"boards?": "status",
    r"rungs?|ladder": "transport",
    r"comeback|redial|redialling|dialling|interruptions": "reconnect",
    r"knock|knocks|knocked": "probe, Reachable",
    r"pace": "congestion",
    r"keeper": "sidecar",
    r"warden": "reaper",
    r"surroundings": "job_environment",
    r"speaks": "is_leader",
    r"stirred": "changed",
    r"entrance": "browser_url",
    r"told|heard": "what it is",
    r"MOST|LONGEST": "MAX_… with its unit",
    r"PATIENCE": "what it limits, with its unit",
    r"Places?": "Host, Position, StorageArea, …",
    r"Ways?": "ClusterConnections",
}

#: The same words where they are the field's own.
ALLOWED = {("gpu/nvml.py", "board")}  # the hardware that a MIG device is a part of

_RETIRED = {re.compile(words): say for words, say in RETIRED.items()}


def words_of(name: str) -> list[str]:
    """The words of a name: `MAX_LOG_BYTES`, `read_log` and `LogReader` have three, two, two."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)


def advice(name: str) -> str | None:
    """What to say instead of a name that holds a retired word."""
    for pattern, say in _RETIRED.items():
        for word in words_of(name):
            # A word in capitals is retired for constants only, one with a first capital
            # for classes only; the others in any spelling.
            own = word if pattern.pattern[0].isupper() else word.lower()
            if pattern.fullmatch(own):
                return say
    return None


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Classes, functions, constants of modules and classes, fields, and attributes of self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                yield from _assigned(statement)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _assigned(statement: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    for target in targets:
        yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def retired_names(room: Path) -> list[str]:
    found = []
    for path in sorted(room.rglob("*.py")) if room.is_dir() else [room]:
        file = path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in dict.fromkeys(
            [*path.relative_to(PACKAGE).with_suffix("").parts, *defined_names(tree)]
        ):
            say = advice(name)
            if say is not None and (file, name) not in ALLOWED:
                found.append(f"{file}: {name}: say {say}")
    return found


ROOMS = sorted(
    path
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists())
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_retired_words_are_no_names(room: Path) -> None:
    assert retired_names(room) == []


@pytest.mark.parametrize(
    ("name", "say"),
    [
        ("GateView", "proxy"),
        ("gate_http", "proxy"),
        ("_knock_until_answered", "probe, Reachable"),
        ("MOST_BYTES", "MAX_… with its unit"),
        ("_LONGEST", "MAX_… with its unit"),
        ("ArrayPlace", "Host, Position, StorageArea, …"),
        ("_told", "what it is"),
        ("place", None),
        ("most_window", None),
        ("investigate", None),
        ("workspace", None),
    ],
)
def test_words_are_found_in_names(name: str, say: str | None) -> None:
    assert advice(name) == say
