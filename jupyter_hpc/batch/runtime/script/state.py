"""What one run of a converted notebook knows about itself.

Part of `jupyter_hpc_runtime.py`, which travels beside the script. One process runs one
notebook: the state is this module.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.log import log

#: Where figures and displayed values go; the working directory unless the job says so.
OUTPUT_VARIABLE = "JUPYTER_HPC_OUTPUT"


#: When set, stdout carries a line before each cell, so that outputs can be compared.
MARK_VARIABLE = "JUPYTER_HPC_MARK_CELLS"
#: Seconds after which the run ends by itself, for trials.
TIME_BOX_VARIABLE = "JUPYTER_HPC_TIME_BOX"


class Run:
    """The running notebook: its names, the current cell, what was saved so far."""

    def __init__(self) -> None:
        self.script = ""
        self.notebook = "the notebook"
        self.output = Path(os.environ.get(OUTPUT_VARIABLE) or os.getcwd()).absolute()
        self.process = os.getpid()
        self.cell = 0
        self.executed = 0
        self.names: dict[str, Any] = {}
        self.keep_history = False
        self.history: dict[int, Any] = {}
        self.before_next_cell: list[Callable[[], None]] = []
        #: Whether the last printed line has no end yet, and the stream it was printed to.
        self.line_is_open = False
        self.stdout: Any = None


RUN = Run()


def watch_line_ends() -> None:
    """Remember how printed text ends: a shown value begins on a line of its own."""
    RUN.stdout = stream = sys.stdout
    original = stream.write

    def write(text: str) -> int:
        written = original(text)
        if text:
            RUN.line_is_open = text[-1] != "\n"
        return written

    stream.write = write  # type: ignore[method-assign]


def end_line() -> None:
    """End the line that a print without an end has left."""
    if RUN.line_is_open and sys.stdout is RUN.stdout:
        print(flush=True)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls an action once the module it waits for has been imported by somebody."""

    def __init__(self) -> None:
        self.actions: dict[str, Callable[[Any], None]] = {}

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self.actions.pop(fullname, None)
        if action is None:
            return None
        spec: Any = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(fullname, path, target)
                if spec is not None:
                    break
        if spec is None or spec.loader is None:
            self.actions[fullname] = action
            return None
        spec.loader = _Loader(spec.loader, action)
        found: importlib.machinery.ModuleSpec = spec
        return found


class _Loader(importlib.abc.Loader):
    """The module's own loader, followed by the action; then it steps aside."""

    def __init__(self, loader: Any, action: Callable[[Any], None]) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        try:
            self.action(module)
        except Exception as error:
            log(f"{module.__name__} could not be prepared for a batch job: {error}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


_AFTER_IMPORT = _AfterImport()


def after_import(name: str, action: Callable[[Any], None]) -> None:
    """Call `action(module)` as soon as module `name` has been imported."""
    if name in sys.modules:
        action(sys.modules[name])
        return
    if _AFTER_IMPORT not in sys.meta_path:
        sys.meta_path.insert(0, _AFTER_IMPORT)
    _AFTER_IMPORT.actions[name] = action
