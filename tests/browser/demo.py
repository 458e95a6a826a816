"""`jupyter-hpc demo` for a test: its home with the checkout's extension, and its address."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.browser.lab import QUIET_SETTINGS
from tests.tools import ROOT
from tests.waiting import eventually


def home_of(folder: Path) -> Path:
    """Where the user of a demo in this folder is at home."""
    return folder / "demo" / "home"


def prepare_home(
    folder: Path, settings: Mapping[str, Mapping[str, object]] = QUIET_SETTINGS
) -> None:
    """The checkout's extension and settings, as if the demo's user had installed them."""
    home = home_of(folder)
    extensions = home / ".local/share/jupyter/labextensions"
    extensions.mkdir(parents=True)
    (extensions / "jupyter-hpc").symlink_to(ROOT / "jupyter_hpc/labextension")
    config = home / ".jupyter"
    config.mkdir()
    name = "jupyter_server_config.d"
    (config / name).symlink_to(ROOT / "jupyter-config" / name)
    for plugin, values in settings.items():
        path = config / "lab/user-settings" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


@contextlib.contextmanager
def demo_server(folder: Path) -> Iterator[str]:
    """The address that the demo prints; it ends as with Ctrl-C."""
    log = folder / "demo.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_hpc", "demo", "--no-browser"],
            env=os.environ | {"JUPYTER_HPC_DEMO": str(folder / "demo"), "HOME": str(folder)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _wait_for_address(process, log)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text(errors="replace")


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    def told() -> str:
        return f"the demo gave no address:\n{log.read_text(errors='replace')}"

    def look() -> re.Match[str] | None:
        assert process.poll() is None, told()
        return re.search(r"http://\S+\?token=\w+", log.read_text(errors="replace"))

    return eventually(look, told, seconds=100)[0]
