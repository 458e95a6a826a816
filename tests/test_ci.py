"""The run of CI: what is run again, what is not, and with which line it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import ci
from tests.ci import Outcome, closing_line
from tests.tools import ROOT

CI = Callable[..., "Ended"]

PASSING = "def test_good(): pass\n"
FAILING = "def test_bad(): assert 0\n"
#: True only once, however many processes ask.
ONCE = """
import os, time
import pytest
from pathlib import Path

def first_time():
    mark = Path(__file__).with_suffix(".ran")
    fresh = not mark.exists()
    mark.touch()
    return fresh
"""
FLAKY = f"{ONCE}\ndef test_flaky(): assert not first_time()\n"
BEFORE = f"""{ONCE}
@pytest.fixture
def before(): assert not first_time()

def test_it(before): pass
"""
AFTER = f"""{ONCE}
@pytest.fixture
def after():
    yield
    assert not first_time()

def test_it(after): pass
"""


@dataclass(frozen=True)
class Ended:
    status: int
    lines: list[str]

    @property
    def closing(self) -> str:
        """The last line, if pytest could have printed it; without its signs and its time."""
        match = re.fullmatch(r"=+ (.+) in [0-9.]+s(?: \([0-9:]+\))? =+", self.lines[-1])
        assert match, self.lines[-1]
        return match[1]

    @property
    def flaky(self) -> list[str]:
        """What is called flaky directly before the last line."""
        named = [line.removeprefix("flaky: ") for line in self.lines if line.startswith("flaky:")]
        assert self.lines[-1 - len(named) : -1] == [f"flaky: {name}" for name in named]
        return named


@pytest.fixture
def run_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CI:
    """CI for a folder of test files, with workers in the first run."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    # Without the plugins of Jupyter, which take longer to import than all of this.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = "-p xdist.plugin -p pytest_timeout -p tests.outcome"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {plugins}\n")

    def run(*options: str, **files: str) -> Ended:
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        pytest_here = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        # As make does, with a last word of its own after that of pytest.
        first = [*pytest_here, "-n", "2", "--dist", "loadfile", *options]
        make = ["sh", "-c", '"$@" && exit; echo "make: *** Error"; exit 2', "sh", *first]
        done = subprocess.run(
            [sys.executable, "-c", _CALL, repr(make), repr([*pytest_here, "-n", "0", "-q"])],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            timeout=100,
        )
        return Ended(done.returncode, done.stdout.splitlines())

    return run


_CALL = (
    "import ast, sys; from tests import ci; sys.exit(ci.run(*map(ast.literal_eval, sys.argv[1:])))"
)


def test_what_passes_is_run_once_and_told_once(run_ci: CI) -> None:
    ended = run_ci(good=PASSING)
    assert (ended.status, ended.closing, ended.flaky) == (0, "1 passed", [])
    assert sum(line == ended.lines[-1] for line in ended.lines) == 1


def test_a_flaky_test_is_named_and_the_run_has_passed(run_ci: CI) -> None:
    ended = run_ci(good=PASSING, odd=FLAKY)
    assert (ended.status, ended.closing) == (0, "2 passed, 1 flaky")
    assert ended.flaky == ["test_odd.py::test_flaky"]


def test_what_fails_again_keeps_the_first_closing_line(run_ci: CI) -> None:
    ended = run_ci(bad=FAILING, odd=FLAKY, good=PASSING)
    assert (ended.status, ended.closing, ended.flaky) == (2, "2 failed, 1 passed", [])
    assert "2 failed; once more, alone:" in ended.lines


def test_errors_around_a_test_are_run_again(run_ci: CI) -> None:
    ended = run_ci(before=BEFORE, after=AFTER, good=PASSING)
    assert (ended.status, ended.closing) == (0, "3 passed, 2 flaky")
    assert ended.flaky == ["test_after.py::test_it", "test_before.py::test_it"]


def killer(condition: str, death: str) -> str:
    """A test that ends the process in which it runs."""
    mark = '@pytest.mark.timeout(1, method="thread")'
    return f"{ONCE}\n{mark}\ndef test_killer():\n    if {condition}: {death}\n"


@pytest.mark.parametrize("death", ["os._exit(7)", "time.sleep(60)"])
def test_a_test_that_took_its_worker_with_it_is_run_again(run_ci: CI, death: str) -> None:
    ended = run_ci(killer=killer("first_time()", death), good=PASSING)
    assert (ended.status, ended.closing) == (0, "2 passed, 1 flaky")
    assert ended.flaky == ["test_killer.py::test_killer"]


def test_a_test_that_always_ends_its_process_fails(run_ci: CI) -> None:
    ended = run_ci("--max-worker-restart=1", killer=killer("True", "os._exit(0)"), good=PASSING)
    assert (ended.status, ended.flaky) == (2, [])
    assert "failed" in ended.closing


def test_tests_that_a_dead_worker_left_are_not_taken_for_passed(run_ci: CI) -> None:
    text = killer("first_time()", "os._exit(0)") + "def test_later(): pass\n"
    ended = run_ci("--max-worker-restart=0", killer=text, good=PASSING)
    assert (ended.status, ended.flaky) == (2, [])
    assert any("test_killer.py::test_later was not run" in line for line in ended.lines)


def test_a_worker_that_dies_after_its_tests_is_not_forgotten(run_ci: CI, tmp_path: Path) -> None:
    hook = "def pytest_sessionfinish(session):\n"
    hook += "    if hasattr(session.config, 'workerinput'): os._exit(1)\n"
    (tmp_path / "conftest.py").write_text(f"import os\n{hook}")
    ended = run_ci(good=PASSING)
    assert (ended.status, ended.closing, ended.flaky) == (2, "1 passed, 1 error", [])
    assert any("a worker died between two tests" in line for line in ended.lines)


def test_a_file_that_cannot_be_collected_is_a_failure(run_ci: CI) -> None:
    ended = run_ci(good=PASSING, torn="import no_such_module\n", odd=FLAKY)
    assert (ended.status, ended.closing, ended.flaky) == (2, "1 failed, 1 passed, 1 error", [])
    assert any(line.startswith("not run again: test_torn.py ") for line in ended.lines)


COMPLAINT = """
import pytest

def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    where = ("table.py", None, "all is in the table")
    report = pytest.TestReport("table.py", where, {}, "failed", "it is not", "teardown")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reporter.stats.setdefault("error", []).append(report)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
"""


def test_a_complaint_about_no_test_is_a_failure(run_ci: CI, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(COMPLAINT)
    ended = run_ci(odd=FLAKY)
    assert (ended.status, ended.closing, ended.flaky) == (2, "1 failed, 1 error", [])
    assert "not run again: table.py cannot be run again" in ended.lines


def test_many_failures_are_no_accident(run_ci: CI) -> None:
    many = f"@pytest.mark.parametrize('n', range({ci.MAX_RERUN + 1}))\n"
    ended = run_ci(odd=f"import pytest\n{many}def test_flaky(n): assert 0\n")
    assert (ended.status, ended.closing) == (2, f"{ci.MAX_RERUN + 1} failed")
    assert any("are no accident" in line for line in ended.lines)


def test_what_a_first_failure_left_out_is_not_taken_for_passed(run_ci: CI) -> None:
    two = f"{FLAKY}\ndef test_later(): assert 0\n"
    ended = run_ci("-n", "0", "-x", odd=two)
    assert (ended.status, ended.closing, ended.flaky) == (2, "1 failed", [])
    assert any("test_odd.py::test_later was not run" in line for line in ended.lines)


def test_a_test_that_is_skipped_the_second_time_has_not_passed(run_ci: CI) -> None:
    odd = f"{ONCE}\ndef test_odd():\n    if not first_time(): pytest.skip('gone')\n    assert 0\n"
    ended = run_ci(odd=odd, good=PASSING)
    assert (ended.status, ended.closing, ended.flaky) == (2, "1 failed, 1 passed", [])


def test_a_run_without_an_end_fails(run_ci: CI) -> None:
    ended = run_ci("-n", "0", killer=killer("True", "os._exit(0)"))
    assert ended.status == 1
    assert ended.lines[-1] == "not run again: pytest did not come to its end"


def test_what_a_run_leaves_behind_does_not_hold_it_up(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci, "_LAST_OUTPUT", 0.5)
    assert ci.run(["sh", "-c", "sleep 300 & echo $!; exit 3"], []) == 3
    left = int(capfd.readouterr().out.split()[0])
    os.kill(left, signal.SIGKILL)


def test_the_closing_line_counts_both_runs() -> None:
    first = Outcome(1, 590.0, ["a", "b"], [], {"passed": 8, "skipped": 1, "warnings": 3})
    second = Outcome(0, 12.5, [], [], {"passed": 2, "warnings": 1})
    words = "10 passed, 1 skipped, 4 warnings, 2 flaky in 602.50s (0:10:02)"
    assert closing_line(first, second).strip("=") == f" {words} "
    assert closing_line(first, second).startswith("====")


def test_the_script_of_ci_is_this_run() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "-m tests.ci </dev/null" in script
