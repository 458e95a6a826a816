"""What the whole test run shares: cluster and browser fixtures, and the record of commands."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jupyter_hpc.runner import COMMAND_LOG_VARIABLE


def _existing(*names: str) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is not None]


pytest_plugins = _existing(
    "tests.cluster.fixtures", "tests.browser.fixtures", "tests.outcome", "tests.covered"
)

_record = pytest.StashKey[Path]()

#: Fixtures behind which there is a cluster or a browser, or minutes of installing, with the
#: seconds of a test on them.
_REAL_PARTS = {"cluster": 4, "cluster_with": 4, "page": 4, "installed": 400}

#: Seconds of long files whose fixtures do not tell.
_LONG_FILES = {
    "gates/test_front_end.py": 100,
    "sites/test_replicas.py": 95,
    "batch/verify/test_verify.py": 90,
    "cli/test_demo_elsewhere.py": 60,
    "matrix/test_newest.py": 50,
    "batch/job/test_runs.py": 40,
    "packaging/test_dists.py": 40,
    "batch/convert/test_same_output.py": 30,
    "cli/test_demo.py": 30,
    "cli/test_log_background.py": 30,
    "batch/convert/test_parameters.py": 25,
}


def pytest_configure(config: pytest.Config) -> None:
    """Make every runner of this run, and of its child processes, record its commands.

    Workers of a parallel run inherit the variable and write to the same record. And let
    Ctrl-C be heard by the programs that tests start, also in a run that was put into the
    background of a shell, which makes it deaf.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    descriptor, name = tempfile.mkstemp(prefix="jupyter-hpc-commands-")
    os.close(descriptor)
    config.stash[_record] = Path(name)
    os.environ[COMMAND_LOG_VARIABLE] = name


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    """Let a warning be of a kind that the process which gathers them knows, too.

    A worker may have packages on its path that lie beside .venv and not in it, such as torch and
    Lightning; a class of theirs would end the whole run.
    """
    kinds = type(warning_message.message).__mro__
    if kinds[0].__module__.partition(".")[0] not in ("builtins", "pytest", "_pytest"):
        known = next(kind for kind in kinds if kind.__module__ == "builtins")
        warning_message.message = known(str(warning_message.message))
        warning_message.category = known


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give long forms their time; begin a parallel run with the files that wait the longest.

    A worker takes whole files: one that is begun last would keep all others waiting.
    """
    for item in items:
        if item.get_closest_marker("faults") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
    if not hasattr(config, "workerinput"):
        return
    here = Path(__file__).parent
    waits = Counter({here / name: seconds for name, seconds in _LONG_FILES.items()})
    for item in items:
        waits[item.path] += max((_REAL_PARTS.get(name, 0) for name in _fixtures(item)), default=0)
    items.sort(key=lambda item: -waits[item.path])


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else ()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if the product used a command that the conformance table does not have."""
    if _record not in session.config.stash:
        return
    complaint = _complaint(session.config.stash[_record])
    if not complaint:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.stats.setdefault("error", []).append(
            pytest.TestReport(
                nodeid="tests/slurm/commands.py",
                location=("tests/slurm/commands.py", None, "every command is in the table"),
                keywords={},
                outcome="failed",
                longrepr=complaint,
                when="teardown",
            )
        )
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    path = config.stash.get(_record, None)
    if path is not None:
        path.unlink(missing_ok=True)


def _complaint(record: Path) -> str:
    """Which recorded commands the table lacks, in words; empty if all is well."""
    unlisted = _table()
    if unlisted is None:
        return ""
    recorded = {
        tuple(json.loads(line)["argv"])
        for line in record.read_text(encoding="utf-8").splitlines()
        if line
    }
    missing = unlisted(sorted(recorded))
    if not missing:
        return ""
    lines = "\n".join(f"  {' '.join(argv)}" for argv in missing)
    return (
        "These commands were run, but the conformance table does not exercise them on both "
        f"clusters (tests/slurm/commands.py):\n{lines}"
    )


def _table() -> Callable[[Sequence[Sequence[str]]], Sequence[Sequence[str]]] | None:
    """`unlisted(commands)` of the conformance table, if this tree has one."""
    if importlib.util.find_spec("tests.slurm.commands") is None:
        return None
    table = importlib.import_module("tests.slurm.commands")
    unlisted: Callable[[Sequence[Sequence[str]]], Sequence[Sequence[str]]] = table.unlisted
    return unlisted
