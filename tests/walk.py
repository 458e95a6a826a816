"""The walk of `jupyter-hpc connect demo` through our files, until JupyterLab is ready.

    python -m tests.walk [--list]

What somebody reads who follows the program from the command to the open session. The embedded
cluster runs in a process of its own, as a cluster would; the laptop's side runs in this one,
without a terminal, under a profiler that sees all its threads and tasks.

files              the files of jupyter_hpc in which a function was entered
changes of file    of the functions in the order of their first entry, how often the next one is
                   in another file than the one before

Every function counts once, however often it is called, so that neither loops nor the speed of
the machine matter. Methods, coroutines and lambdas are functions; the bodies of modules and
classes, and comprehensions, are not (since Python 3.12 most of them have no frame of their own).
The tree before connect/ got its rooms gave 71 files and 283 changes of file.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

CHECKOUT = Path(__file__).resolve().parents[1]

#: Seconds for the whole walk, with the start of JupyterLab; far more than it takes.
WALK_SECONDS = 180

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

_SERVE = """
import asyncio, sys
from jupyter_hpc.demo.cluster import serve
asyncio.run(serve(sys.argv[1], started=lambda cluster: print("up", flush=True)))
"""


@dataclass(frozen=True)
class Step:
    """A function of ours, named by its file below the package and its own name."""

    file: str
    function: str


class Walk:
    """The functions below `package` in the order of their first entry."""

    def __init__(self, package: Path) -> None:
        self._prefix = f"{package}{os.sep}"
        self._first: dict[Step, None] = {}
        self._watching = False

    @property
    def steps(self) -> list[Step]:
        return list(self._first)

    @property
    def files(self) -> set[str]:
        return {step.file for step in self._first}

    @property
    def changes(self) -> int:
        """How often the next function is in another file."""
        return sum(before.file != after.file for before, after in itertools.pairwise(self._first))

    def lines(self) -> list[str]:
        """The walk, one line for each stay in a file with the functions that were new there."""
        return [
            f"{file}: {', '.join(step.function for step in steps)}"
            for file, steps in itertools.groupby(self._first, key=lambda step: step.file)
        ]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch this thread and those that it starts, until `stop` or the end of the block."""
        self._watching = True
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Arrived: what is entered from now on does not count, in no thread."""
        self._watching = False
        sys.setprofile(None)
        threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not self._watching:
            return
        code = frame.f_code
        # Only functions have the flag; the bodies of modules and classes do not.
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name in _COMPREHENSIONS:
            return
        if code.co_filename.startswith(self._prefix):
            file = code.co_filename.removeprefix(self._prefix).replace(os.sep, "/")
            # co_qualname is there from Python 3.11 on; the line tells equal names apart as well.
            name = getattr(code, "co_qualname", f"{code.co_name}:{code.co_firstlineno}")
            self._first.setdefault(Step(file, name))


class _UntilReady:
    """Takes the lines of `connect --json`, and ends the walk and the command at `ready`."""

    def __init__(self, walk: Walk, log: TextIO) -> None:
        self._walk = walk
        self._log = log
        self.is_ready = False

    def write(self, text: str) -> int:
        if '"event": "ready"' in text and not self.is_ready:
            self._walk.stop()
            self.is_ready = True
            signal.raise_signal(signal.SIGINT)
        return self._log.write(text)

    def flush(self) -> None:
        self._log.flush()

    def isatty(self) -> bool:
        return False


@contextlib.contextmanager
def demo_cluster(folder: Path) -> Iterator[None]:
    """The embedded cluster in its own process."""
    words = [sys.executable, "-c", _SERVE, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "up\n":
                raise SystemExit("The demo cluster did not start.")
            yield
        finally:
            process.terminate()


def walk_to_ready(folder: Path) -> Walk:
    """Connect to a demo cluster in `folder` as a laptop that has never done so."""
    home = folder / "home"
    home.mkdir()
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    os.environ.clear()
    os.environ.update(HOME=str(home), PATH=path, PYTHONPATH=str(CHECKOUT))
    os.environ["JUPYTER_HPC_DEMO"] = str(folder / "demo")
    import jupyter_hpc
    from jupyter_hpc.cli.main import main

    walk = Walk(Path(jupyter_hpc.__file__).parent)
    log = (folder / "connect.log").open("w+", encoding="utf-8")
    output = _UntilReady(walk, log)
    with demo_cluster(folder / "demo"), log, open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        quiet = contextlib.redirect_stdout(output), contextlib.redirect_stderr(log)
        with quiet[0], quiet[1], contextlib.suppress(SystemExit), walk.watched():
            main(["connect", "demo", "--json", "--no-browser"])
        if not output.is_ready:
            log.seek(0)
            raise SystemExit(f"The session did not become ready:\n{log.read()}")
    return walk


def _too_late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"The session was not ready within {WALK_SECONDS} s.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the walk itself")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(WALK_SECONDS)
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        walk = walk_to_ready(Path(folder))
    if options.list:
        print("\n".join(walk.lines()))
    print(f"{len(walk.files)} files, {walk.changes} changes of file")


if __name__ == "__main__":
    main()
