"""Notes what a job found installed, as `pip freeze` would list it, for its report.

It is read in the job itself, in the Python of its program: between submit and start, hours or
days may pass, and the environment of the node need not be that of the login node.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import sys
import threading
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.marks import ENVIRONMENT
from jupyter_hpc.batch.runtime.log import log

#: The end of a job waits so long for a file server that does not answer.
LAST_WAIT_SECONDS = 5.0


class InstalledNote:
    """Writes the list beside all else, which a slow file server must not hold up."""

    def __init__(self, folder: Path) -> None:
        self._thread = threading.Thread(target=note_installed, args=(folder,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for it, not for ever."""
        self._thread.join(LAST_WAIT_SECONDS)


def note_installed(folder: Path) -> None:
    """Write the list into the folder, whole or not at all; a failure is logged."""
    draft = folder / f"{ENVIRONMENT}.{os.getpid()}"
    try:
        draft.write_text(json.dumps(installed(), indent=0), encoding="utf-8")
        os.replace(draft, folder / ENVIRONMENT)
    except (OSError, ValueError) as error:
        log(f"the list of installed packages was not written: {error}")
        with contextlib.suppress(OSError):
            draft.unlink()


def installed() -> dict[str, Any]:
    """Python, packages with their versions, and the modules that are loaded."""
    packages: dict[str, str] = {}
    for found in importlib.metadata.distributions():
        try:
            name, version = found.metadata["Name"], found.version
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # what an installation left half-way
        # Of two, the first on the path is the one that is imported.
        if isinstance(name, str) and isinstance(version, str):
            packages.setdefault(name, version)
    loaded = os.environ.get("LOADEDMODULES", "").split(":")
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: packages[name] for name in sorted(packages, key=str.lower)},
        "modules": [name for name in loaded if name],
    }
