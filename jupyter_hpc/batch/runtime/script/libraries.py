"""Libraries that behave differently in a notebook: progress bars, displays, processes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from jupyter_hpc.batch.runtime.display.display import clear_output, display, publish_display_data
from jupyter_hpc.batch.runtime.script.children import prepare_spawn
from jupyter_hpc.batch.runtime.script.state import after_import

#: Seconds between two lines of a progress bar in a log.
PROGRESS_INTERVAL_SECONDS = 30


def _prepare_tqdm(std: Any) -> None:
    """A log is not a terminal: a bar writes a line now and then."""
    if sys.stderr is not None and sys.stderr.isatty():
        return
    bar = std.tqdm
    original = bar.__init__

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        if len(args) < 7:  # mininterval is the seventh argument
            options.setdefault("mininterval", PROGRESS_INTERVAL_SECONDS)
        if len(args) < 8:
            options["maxinterval"] = max(options.get("maxinterval") or 0, PROGRESS_INTERVAL_SECONDS)
        options.pop("display", None)  # of the notebook's bar
        original(self, *args, **options)

    bar.__init__ = __init__


def _prepare_tqdm_notebook(module: Any) -> None:
    std = importlib.import_module("tqdm.std")
    module.tqdm = module.tqdm_notebook = std.tqdm
    module.trange = module.tnrange = std.trange


def _prepare_tqdm_package(module: Any) -> None:
    module.tqdm_notebook, module.tnrange = module.tqdm, module.trange


def _prepare_ipython(module: Any) -> None:
    """Modules of the user that import IPython display through us as well."""
    module.display = display
    module.clear_output = clear_output
    module.publish_display_data = publish_display_data


def _prepare_pandas(pandas: Any) -> None:
    """Tables are as wide as in a notebook; without a kernel pandas cuts them to a terminal."""
    if pandas.get_option("display.max_columns") == 0:
        pandas.set_option("display.max_columns", 20)


def prepare_libraries() -> None:
    """Arrange for each library to be prepared when the notebook imports it."""
    os.environ.setdefault("TQDM_MININTERVAL", str(PROGRESS_INTERVAL_SECONDS))
    after_import("tqdm.std", _prepare_tqdm)
    after_import("tqdm.notebook", _prepare_tqdm_notebook)
    after_import("tqdm", _prepare_tqdm_package)
    after_import("IPython.display", _prepare_ipython)
    after_import("multiprocessing.spawn", prepare_spawn)
    after_import("pandas", _prepare_pandas)
