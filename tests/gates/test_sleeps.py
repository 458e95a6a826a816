"""Tests wait for what they need: none sleeps and hopes that it will have happened by then.

`tests/waiting.py` has the ways to wait with a deadline, and to see that nothing happens. A sleep
that is meant, because it plays a slow program or a random moment, says so in its own line:

    await asyncio.sleep(0.01)  # sleep: a command takes its time
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.test_house import tracked
from tests.tools import ROOT

#: Here waiting itself is written.
WAITING = ROOT / "tests" / "waiting.py"

#: Rooms whose time is that of real daemons, browsers and jobs.
LEFT_OUT = ("batch", "browser", "cluster")

#: Rooms that still sleep and hope.
NOT_YET: tuple[str, ...] = ()

MEANT = "# sleep: "


def looked_at() -> list[Path]:
    out = [ROOT / "tests" / room for room in (*LEFT_OUT, *NOT_YET)]
    return [
        file
        for file in tracked("tests/*.py")
        if file != WAITING and not any(file.is_relative_to(room) for room in out)
    ]


def sleeps(text: str) -> Iterator[int]:
    """Lines that sleep, and neither only let the event loop turn nor say why."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not _is_sleep(node.func):
            continue
        first = node.args[0] if node.args else None
        turns = isinstance(first, ast.Constant) and first.value == 0
        # The formatter may break the line; the reason stands at its end.
        said = lines[(node.end_lineno or node.lineno) - 1].partition(MEANT)[2].strip()
        if not turns and not said:
            yield node.lineno


def _is_sleep(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr == "sleep"
    return isinstance(function, ast.Name) and function.id == "sleep"


def test_no_test_sleeps_and_hopes() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in looked_at()
        for line in sleeps(file.read_text(encoding="utf-8"))
    ]
    assert found == [], "wait with tests/waiting.py, or say why with '# sleep: …'"


def test_every_room_is_looked_at() -> None:
    rooms = {file.relative_to(ROOT / "tests").parts[0] for file in looked_at()}
    assert {"cli", "demo", "gates", "node", "relay", "slurm", "test_ci.py"} <= rooms
    assert all((ROOT / "tests" / room).is_dir() for room in (*LEFT_OUT, *NOT_YET))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("time.sleep(1)", True),
        ("await asyncio.sleep(0.05)", True),
        ("await asyncio.sleep(delay=1)", True),
        ("sleep(seconds)", True),
        ("time.sleep(1)  # sleep:", True),
        ("time.sleep(1)  # for luck", True),
        ("await asyncio.sleep(0)", False),
        ("time.sleep(1)  # sleep: plays a slow program", False),
        ("run('time.sleep(1)')", False),
    ],
)
def test_a_sleep_is_told_from_what_is_none(line: str, found: bool) -> None:
    text = f"async def f():\n    {line}\n"
    assert list(sleeps(text)) == ([2] if found else [])
