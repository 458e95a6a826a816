"""The course of a run: start, one cell after the other, failures that name their cell."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Coroutine
from typing import Any

from jupyter_hpc.batch.runtime.display.figures import prepare_figures
from jupyter_hpc.batch.runtime.display.formulas import prepare_formulas
from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.libraries import prepare_libraries
from jupyter_hpc.batch.runtime.script.parameters import read_settings
from jupyter_hpc.batch.runtime.script.signals import watch_signals
from jupyter_hpc.batch.runtime.script.state import (
    MARK_VARIABLE,
    RUN,
    TIME_BOX_VARIABLE,
    end_line,
    watch_line_ends,
)

_MARKER = re.compile(r"# %% \[cell (\d+)[\]> ]")


def start(
    names: dict[str, Any],
    notebook: str,
    parameters: dict[str, Any] | None = None,
    not_from_environment: Any = (),
    about: dict[str, str] | None = None,
    modules: str = "modules",
    folder: str | None = None,
    history: bool = False,
) -> None:
    """Begin the run: paths, parameters, figures without a screen, signals.

    `modules` is the folder with frozen copies of the notebook's own modules, `folder` the
    notebook's folder, both relative to the script. For the rest see read_settings.
    """
    RUN.script = os.path.abspath(names.get("__file__") or sys.argv[0])
    RUN.notebook, RUN.names, RUN.keep_history = notebook, names, history
    names.pop("__file__", None)  # a notebook has none, and looks for its folder by that
    here = os.path.dirname(RUN.script)
    first = [path for path in (os.path.join(here, modules),) if os.path.isdir(path)]
    sys.path[:0] = [*first, os.getcwd()]
    if folder is not None:
        sys.path.append(os.path.normpath(os.path.join(here, folder)))
    read_settings(parameters or {}, not_from_environment, about)
    watch_line_ends()
    prepare_figures()
    prepare_libraries()
    prepare_formulas()
    sys.excepthook = _failed
    atexit.register(_finish)
    watch_signals()
    if os.environ.get(TIME_BOX_VARIABLE):
        signal.signal(signal.SIGALRM, _time_box_over)
        signal.setitimer(signal.ITIMER_REAL, float(os.environ[TIME_BOX_VARIABLE]))


def cell(number: int) -> None:
    """A new cell begins: what the last one has drawn is saved under its own number."""
    _end_of_cell()
    end_line()  # outputs of two cells do not share a line
    RUN.cell = number
    RUN.executed += 1
    if os.environ.get(MARK_VARIABLE):
        print(f"\x1ecell {number}\x1e", flush=True)


def _end_of_cell() -> None:
    for action in RUN.before_next_cell:
        action()


def _finish() -> None:
    if os.getpid() != RUN.process:
        return  # a copy of this process, whose figures are not its own
    _end_of_cell()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _cell_of(line: int) -> tuple[int, int] | None:
    """The cell that holds a line of the script, and the line's place after its marker."""
    try:
        with open(RUN.script, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for number in range(min(line, len(lines)), 0, -1):
        match = _MARKER.match(lines[number - 1].lstrip())
        if match:
            return int(match.group(1)), line - number
    return None


def _name_cell(tb: Any) -> None:
    for frame in reversed(traceback.extract_tb(tb)):
        if os.path.abspath(frame.filename) == RUN.script:
            found = _cell_of(frame.lineno or 0)
            if found and found[0] != RUN.cell:
                log(f"the failing code is defined in cell {found[0]}")
            break
    log(f"failed in cell {RUN.cell} of {RUN.notebook}")


def _failed(kind: Any, error: Any, tb: Any) -> None:
    sys.stdout.flush()
    traceback.print_exception(kind, error, tb)
    _name_cell(tb)


class may_fail:
    """A cell that is allowed to raise: the error is shown and the run goes on."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        sys.stdout.flush()
        traceback.print_exception(kind, error, tb)
        log(f"cell {RUN.cell} is marked as one that may fail; going on")
        return True


class _Loop:
    loop: asyncio.AbstractEventLoop | None = None


def run_async(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a cell that awaits, on the one event loop of this run."""
    if _Loop.loop is None:
        _Loop.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_Loop.loop)
    result = _Loop.loop.run_until_complete(work)
    _Loop.loop.run_until_complete(asyncio.sleep(0))  # tasks in the background move on
    return result


def _time_box_over(*_: Any) -> None:
    log(f"the time of this trial is over, in cell {RUN.cell}")
    raise SystemExit(124)
