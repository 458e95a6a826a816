"""The tracer of the walk: what it counts, and that it arrives."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.walk import CHECKOUT, WALK_SECONDS, Walk

ONE = """
from walked import other
class Kind:
    size = [other.never_seen for _ in ()]
    async def late(self):
        other.helper()
def begin():
    other.helper()
    again()
    other.second()
    other.helper()
    again()
def again():
    return [number for number in range(3)]
"""
OTHER = """
never_seen = 1
def helper(): ...
def second(): return (lambda: None)()
"""


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two modules."""
    package = tmp_path / "walked"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text(ONE)
    (package / "other.py").write_text(OTHER)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("walked", "walked.one", "walked.other"):
        sys.modules.pop(name, None)
    return package


def test_each_function_counts_at_its_first_entry(walked: Path) -> None:
    walk = Walk(walked)
    with walk.watched():
        one = importlib.import_module("walked.one")  # bodies of modules and classes are no steps
        one.begin()
        thread = threading.Thread(target=one.again)
        thread.start()
        thread.join()
        walk.stop()
        one.Kind().late().close()
    assert walk.files == {"one.py", "other.py"}
    assert walk.changes == 3
    assert [line.partition(":")[0] for line in walk.lines()] == [
        *("one.py", "other.py", "one.py", "other.py")
    ]
    assert len(walk.steps) == 5  # begin, helper, again, second and its lambda


def test_threads_are_followed(walked: Path) -> None:
    one = importlib.import_module("walked.one")
    walk = Walk(walked)
    with walk.watched():
        thread = threading.Thread(target=one.begin)
        thread.start()
        thread.join()
    assert len(walk.steps) == 5


#: A little above what the walk is now (docs/developers/architecture.md): whoever makes it longer
#: than this adds a layer, or work that a start does not need yet. A port that is taken adds two
#: files and four changes.
MAX_FILES, MAX_CHANGES = 72, 248


@pytest.mark.timeout(WALK_SECONDS + 60)
def test_the_walk_of_the_demo_arrives_and_stays_short() -> None:
    words = [sys.executable, "-m", "tests.walk", "--list"]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert lines[0].startswith("cli/main.py: main")
    counted = re.fullmatch(r"(\d+) files, (\d+) changes of file", last)
    assert counted is not None and int(counted[2]) == len(lines) - 1
    assert int(counted[1]) <= MAX_FILES and int(counted[2]) <= MAX_CHANGES, done.stdout
