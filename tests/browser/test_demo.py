"""What `make demo` shows: the panels on the embedded cluster, with its simulated GPU at work."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.fixtures import Take
from tests.browser.lab import QUIET_SETTINGS
from tests.browser.steps import run_cell, show_panel
from tests.tools import ROOT
from tests.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(300)

#: Work for the simulated GPU, until this file is there.
ENOUGH = "enough"
WORK = f"import os\nwhile not os.path.exists({ENOUGH!r}):\n    pass"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of JupyterLab on the demo's GPU node; the demo ends as with Ctrl-C."""
    home = tmp_path / "demo" / "home"
    prepare_home(home)
    log = tmp_path / "demo.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_hpc", "demo", "--no-browser"],
            env=os.environ | {"JUPYTER_HPC_DEMO": str(tmp_path / "demo"), "HOME": str(tmp_path)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield wait_for_address(process, log)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text(errors="replace")


def prepare_home(home: Path) -> None:
    """The checkout's extension and quiet settings, as if the demo's user had installed them."""
    extensions = home / ".local/share/jupyter/labextensions"
    extensions.mkdir(parents=True)
    (extensions / "jupyter-hpc").symlink_to(ROOT / "jupyter_hpc/labextension")
    config = home / ".jupyter"
    config.mkdir()
    name = "jupyter_server_config.d"
    (config / name).symlink_to(ROOT / "jupyter-config" / name)
    settings = QUIET_SETTINGS | {"jupyter-hpc/idle": {"minutes": 0.05}}
    for plugin, values in settings.items():
        path = config / "lab/user-settings" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    cell: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": [cell | {"id": "work", "source": WORK}],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (home / "train.ipynb").write_text(json.dumps(notebook))


def wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    def told() -> str:
        return f"the demo gave no address:\n{log.read_text(errors='replace')}"

    def look() -> re.Match[str] | None:
        assert process.poll() is None, told()
        return re.search(r"http://\S+\?token=\w+", log.read_text(errors="replace"))

    return eventually(look, told, seconds=100)[0]


def test_a_notebook_works_idles_and_lets_go(
    page: Page, address: str, tmp_path: Path, screenshot: Take
) -> None:
    page.goto(re.sub(r"/lab/tree/[^?]*", "/lab", address))  # without the notebook that leads
    panel = show_panel(page)
    panel.get_by_text("demo-gpu1").wait_for()
    gpu = panel.get_by_role("region", name=re.compile("GPU 0: Simulated"))
    gpu.get_by_text("simulated", exact=True).wait_for()
    page.goto(re.sub(r"/lab\b.*", "/lab/tree/train.ipynb", address))
    run_cell(page)
    show_panel(page)
    gpu.get_by_role("button", name="train.ipynb").wait_for()
    gpu.get_by_text(re.compile(r"^[1-9]\d* %$")).wait_for()
    screenshot("working")
    (tmp_path / "demo" / "home" / ENOUGH).touch()
    page.get_by_text(re.compile(r"GPU 0 has been idle for .* train\.ipynb holds \d+")).wait_for()
    screenshot("idle")
    page.get_by_role("button", name="Shut Down Its Kernel").click()
    page.get_by_text("Python 3 (ipykernel) | Unknown").or_(
        page.get_by_text("No Kernel")
    ).first.wait_for()
    gpu.get_by_role("button", name="train.ipynb").wait_for(state="detached")
