"""The run of CI: `make test`, and once more, alone, the tests that failed in it.

A test that passes then is flaky: it is named before the closing line, and the run has passed.
The last line of the output is a closing line as pytest prints it, and true for the whole run.
Only the standard library is needed here, because this starts before anything is installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

#: Where `tests/outcome.py` writes how a run of pytest went.
OUTCOME_VARIABLE = "JUPYTER_HPC_OUTCOME"

#: With more failures than this, something is broken rather than flaky.
MAX_RERUN = 20

#: Seconds to wait for the last output of a run that is over, if a process that it left
#: behind keeps the pipe open.
_LAST_OUTPUT = 10.0

MAKE = ("make", "--no-print-directory", "test")
PYTEST = (".venv/bin/python", "-m", "pytest", "-n", "0", "-q")

_CLOSING = re.compile(r"=+ .+ in [0-9.]+s.* =+")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: The order in which pytest counts.
_KINDS = ("passed", "skipped", "deselected", "xfailed", "xpassed", "warnings")


@dataclass(frozen=True)
class Outcome:
    """How a run of pytest went."""

    #: The exit code.
    status: int
    seconds: float
    #: The tests that failed, in whatever phase, and can be run again.
    failed: list[str]
    #: What else went wrong, one sentence each.
    broken: list[str]
    #: How many reports of each kind there were, without those of failed tests.
    counts: dict[str, int]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Outcome | None:
        """None if pytest did not come so far, or died."""
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return cls(**json.loads(text)) if text else None


def run(first: Sequence[str], again: Sequence[str]) -> int:
    """Run both, as far as needed; returns the exit code.

    `again` is completed with the names of the tests that are to be run again.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-hpc-ci-") as folder:
        shown = _Shown()
        record = Path(folder) / "first"
        status = shown.run(first, record)
        outcome = Outcome.read(record)
        if status == 0 and outcome is not None and outcome.status == 0:
            shown.end(shown.closing)
            return 0
        closing = shown.closing
        obstacle = _obstacle(outcome)
        if outcome is None or obstacle:
            shown.say(f"not run again: {obstacle}")
        else:
            shown.say(f"{len(outcome.failed)} failed; once more, alone:")
            record = Path(folder) / "again"
            second_status = shown.run([*again, *outcome.failed], record)
            second = Outcome.read(record)
            if second_status == 0 and second is not None and _all_passed(outcome, second):
                for test in outcome.failed:
                    shown.say(f"flaky: {test}")
                shown.end(closing_line(outcome, second))
                return 0
        shown.end(closing)
        return status or 1


def _obstacle(outcome: Outcome | None) -> str:
    """Why another run of the failed tests could not save this one; empty if it could."""
    if outcome is None:
        return "pytest did not come to its end"
    if outcome.broken:
        return "; ".join(outcome.broken[:5])
    if outcome.status != 1 or not outcome.failed:
        return f"pytest ended with code {outcome.status}, and not for a test that failed"
    if len(outcome.failed) > MAX_RERUN:
        return f"{len(outcome.failed)} tests failed, more than {MAX_RERUN} are no accident"
    return ""


def _all_passed(first: Outcome, second: Outcome) -> bool:
    good = second.status == 0 and not second.failed and not second.broken
    return good and second.counts.get("passed") == len(first.failed)


def closing_line(first: Outcome, second: Outcome) -> str:
    """The line with which pytest would have closed both runs; flaky tests are passed ones."""
    counts = {kind: first.counts.get(kind, 0) for kind in _KINDS}
    counts["passed"] += len(first.failed)
    counts["warnings"] += second.counts.get("warnings", 0)
    counts["flaky"] = len(first.failed)
    words = [
        f"{count} {kind[:-1] if (kind, count) == ('warnings', 1) else kind}"
        for kind, count in counts.items()
        if count
    ]
    seconds = first.seconds + second.seconds
    long = f" ({timedelta(seconds=int(seconds))})" if seconds >= 60 else ""
    return f" {', '.join(words)} in {seconds:.2f}s{long} ".center(80, "=")


class _Shown:
    """The output so far: what was copied, and what was said."""

    def __init__(self) -> None:
        #: The newest closing line of pytest.
        self.closing = ""
        self._last = ""

    def run(self, argv: Sequence[str], record: Path) -> int:
        """Run a program and show its output; returns its exit code."""
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, OUTCOME_VARIABLE: str(record)},
        ) as process:
            assert process.stdout is not None
            copier = threading.Thread(target=self._copy, args=(process.stdout,), daemon=True)
            copier.start()
            status = process.wait()
            copier.join(_LAST_OUTPUT)
            if copier.is_alive():
                # Closing the pipe would wait for it, too.
                process.stdout = None
        return status

    def _copy(self, output: IO[bytes]) -> None:
        rest = b""
        while chunk := os.read(output.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._note(line.decode(errors="replace"))
        if rest:
            self.say("")

    def _note(self, line: str) -> None:
        self._last = _COLOUR.sub("", line).strip()
        if _CLOSING.fullmatch(self._last):
            self.closing = self._last

    def say(self, line: str) -> None:
        print(line, flush=True)
        self._note(line)

    def end(self, closing: str) -> None:
        """Make the closing line the last one; there is none if pytest did not print one."""
        if closing and self._last != closing:
            self.say(closing)


if __name__ == "__main__":
    sys.exit(run(MAKE, PYTEST))
