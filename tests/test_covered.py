"""The figures of how much of the package the tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import covered
from tests.covered import Count, counts, document, table
from tests.tools import ROOT


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two rooms, of which a counted program has run some lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVERAGE_FILE", str(tmp_path / "counted"))
    package = tmp_path / "house"
    for name, text in {
        "__init__.py": "",
        "top.py": "a = 1\n",
        "hall/__init__.py": "",
        "hall/seen.py": "def f(x):\n    if x:\n        return 1\n    return 2\n",
        "cellar/__init__.py": "",
        "attic/deep/unseen.py": "a = 1\n# no line\nb = 2\n",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (tmp_path / "program.py").write_text(
        "import house.top\nfrom house.hall.seen import f\nf(True)\n"
    )
    return package


def count(folder: Path) -> None:
    argv = [sys.executable, "-m", "coverage", "run", "--source=house", "program.py"]
    subprocess.run(argv, cwd=folder, check=True, timeout=60)


def test_rooms_are_counted_also_those_that_never_ran(package: Path) -> None:
    assert counts(package) == []
    count(package.parent)
    assert counts(package) == [
        Count("attic/", 2, 0),
        Count("hall/", 4, 3),
        Count("the package's own modules", 1, 1),
        Count("total", 7, 4),
    ]


def test_only_what_ran_as_a_whole_has_a_hundred_percent() -> None:
    assert Count("a", 1000, 999).percent == "99 %"
    assert Count("a", 1000, 1000).percent == "100 %"


def test_the_table_is_one_of_markdown() -> None:
    assert table([Count("hall/", 1200, 300), Count("total", 9, 9)]).splitlines() == [
        "| room  | lines |   ran |",
        "|-------|------:|------:|",
        "| hall/ |  1200 |  25 % |",
        "| total |     9 | 100 % |",
    ]


def test_the_page_says_how_its_figures_were_taken() -> None:
    assert "`make coverage` (all tests)" in document([])
    assert "`make coverage ARGS='tests/slurm'` (only some" in document([], "tests/slurm")


def test_the_page_is_written(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = package.parent / "coverage.md"
    monkeypatch.setattr(covered, "ROOT", package.parent)
    monkeypatch.setattr(covered, "DOCUMENT", page)
    assert covered.main() == 1
    assert "make coverage" in capsys.readouterr().out
    assert not page.exists()
    count(package.parent)
    assert covered.main("tests/hall") == 0
    assert "tests/hall" in page.read_text()
    assert "written to coverage.md" in capsys.readouterr().out


def test_a_run_that_counts_shows_the_table_before_its_closing_line(tmp_path: Path) -> None:
    one = "tests/test_runner.py::test_a_command_need_not_read_its_input"
    options = ["-p", "no:cacheprovider", "-n", "1", "--cov", "--cov-report="]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, one],
        cwd=ROOT,
        env={**os.environ, "COVERAGE_FILE": str(tmp_path / "counted")},
        capture_output=True,
        text=True,
        timeout=100,
    )
    *rows, total, closing = done.stdout.splitlines()
    assert "1 passed" in closing, done.stdout
    (own,) = [row for row in rows if "the package's own modules" in row]
    _, lines, percent = own.strip("| ").split("|")
    assert 20 < int(percent.strip(" %")) < 100
    assert int(total.split("|")[2]) > int(lines)
