"""How much of the package the tests run: one figure per room, to look at and not to pass.

`make coverage` writes it into the documentation; a run with `--cov` (CI has one) shows it
before its closing line.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import pytest

from tests.tools import ROOT

PACKAGE = ROOT / "jupyter_hpc"
DOCUMENT = ROOT / "docs" / "developers" / "coverage.md"

#: Where the modules are counted that stand in no room.
_NO_ROOM = "the package's own modules"

_TEXT = """\
# How much of the package the tests run

{how}

{table}

A line counts if a test ran it in pytest's own processes. What runs elsewhere is tested, but not
counted: on the hosts of the test cluster, in JupyterLab's server and its kernels, in jobs, in the
demo's daemons, and in each `jupyter-hpc` that a test starts as a program. Rooms that mostly run
there (`batch/`, `demo/`, `relay/` in part) are better tested than their figure says.

These are figures and not a gate: a line that ran has not been checked for what it did.
"""


@dataclass(frozen=True)
class Count:
    """Lines with statements, and how many of them ran."""

    room: str
    lines: int
    ran: int

    @property
    def percent(self) -> str:
        # Rounded down: only what ran as a whole has 100 %.
        return f"{100 * self.ran // self.lines} %"


def counts(package: Path = PACKAGE) -> list[Count]:
    """One count per room of the package, by name, and the total at the end.

    Empty if no run has counted yet. The lines are read from where coverage keeps them.
    """
    # Only a run that counts needs it.
    import coverage

    measured = coverage.Coverage()
    measured.load()
    if not measured.get_data().measured_files():
        return []
    lines: dict[str, int] = {}
    missing: dict[str, int] = {}
    for module in sorted(package.rglob("*.py")):
        inside = module.relative_to(package).parts
        room = f"{inside[0]}/" if len(inside) > 1 else _NO_ROOM
        _, statements, _, not_run, _ = measured.analysis2(str(module))
        lines[room] = lines.get(room, 0) + len(statements)
        missing[room] = missing.get(room, 0) + len(not_run)
    rooms = [Count(room, n, n - missing[room]) for room, n in sorted(lines.items()) if n]
    return [*rooms, Count("total", sum(c.lines for c in rooms), sum(c.ran for c in rooms))]


def table(found: Iterable[Count]) -> str:
    """A table that reads well both in a terminal and as Markdown."""
    rows = [("room", "lines", "ran")] + [(c.room, f"{c.lines}", c.percent) for c in found]
    first, second, third = (max(len(row[n]) for row in rows) for n in range(3))
    written = [f"| {a:{first}} | {b:>{second}} | {c:>{third}} |" for a, b, c in rows]
    rule = f"|-{'-' * first}-|-{'-' * second}:|-{'-' * third}:|"
    return "\n".join([written[0], rule, *written[1:]])


def document(found: Iterable[Count], arguments: str = "") -> str:
    """The page of the documentation, which says how its figures were taken."""
    command = f"make coverage ARGS='{arguments}'" if arguments else "make coverage"
    extent = "only some of the tests" if arguments else "all tests"
    python = ".".join(platform.python_version_tuple()[:2])
    how = f"Taken with `{command}` ({extent}), Python {python} on {platform.system()}."
    return _TEXT.format(how=fill(how, 100, break_on_hyphens=False), table=table(found))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the figures of a run that has counted."""
    if config.pluginmanager.hasplugin("_cov") and (found := counts()):
        terminalreporter.section("coverage")
        terminalreporter.write_line(table(found))


def main(arguments: str = "") -> int:
    """Write the page from the newest run that has counted; returns the exit code."""
    found = counts()
    if not found:
        print("No run of the tests has counted lines yet; do both with: make coverage")
        return 1
    DOCUMENT.write_text(document(found, arguments), encoding="utf-8")
    print(table(found))
    print(f"written to {DOCUMENT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
