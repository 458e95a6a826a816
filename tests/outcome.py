"""A pytest plugin that writes down how a run went, for the one that decides about it.

It writes to the file that `JUPYTER_HPC_OUTCOME` names. The variable is taken away from the
environment, so that no worker and no pytest that a test starts writes there too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.ci import OUTCOME_VARIABLE, Outcome

#: What pytest calls the reports of tests that did not pass.
_FAILURES = ("failed", "error")


def pytest_configure(config: pytest.Config) -> None:
    name = os.environ.pop(OUTCOME_VARIABLE, "")
    if name and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Record(Path(name)), "outcome")


class _Record:
    """What is known of the tests of this run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()
        self._collected: set[str] = set()
        self._reported: set[str] = set()
        self._broken: list[str] = []
        self._dead_workers = 0
        self._crashed_tests = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected.update(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self._dead_workers += bool(error)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self) -> None:
        self._crashed_tests += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)

    def pytest_internalerror(self, excrepr: object) -> None:
        self._broken.append(f"pytest itself failed: {str(excrepr).splitlines()[-1]}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Write when all others, who may still find a fault, have had their say."""
        self._judge_workers(session)
        yield
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        stats = {} if reporter is None else reporter.stats
        failures = [report for kind in _FAILURES for report in stats.get(kind, [])]
        failed = {report.nodeid for report in failures} & self._collected
        unknown = [r.nodeid or "pytest" for r in failures if r.nodeid not in self._collected]
        unfinished = sorted(self._collected - self._reported)
        Outcome(
            status=int(session.exitstatus),
            seconds=time.monotonic() - self._began,
            failed=sorted(failed),
            broken=self._broken
            + [f"{name} cannot be run again" for name in dict.fromkeys(unknown)]
            + [f"{name} was not run" for name in unfinished],
            counts={
                kind: sum(getattr(report, "nodeid", "") not in failed for report in reports)
                for kind, reports in stats.items()
                # The setups and teardowns that went well stand under no name.
                if kind and kind not in _FAILURES
            },
        ).write(self._path)

    def _judge_workers(self, session: pytest.Session) -> None:
        """A worker that died during no test has no test to blame, and would be forgotten."""
        if self._dead_workers <= self._crashed_tests:
            return
        told = "a worker died between two tests"
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            lost = pytest.TestReport(
                nodeid=told,
                location=("", None, told),
                keywords={},
                outcome="failed",
                longrepr=f"{told}, and what it had to tell of their end is lost",
                when="teardown",
            )
            reporter.stats.setdefault("error", []).append(lost)
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
