"""What `make demo` shows: the panels on the embedded cluster, with its simulated GPU at work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.batch.notebooks import write_notebook
from tests.browser.demo import demo_server, home_of, prepare_home
from tests.browser.fixtures import Take
from tests.browser.lab import QUIET_SETTINGS
from tests.browser.steps import run_cell, show_panel

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(300)

#: Work for the simulated GPU, until this file is there.
ENOUGH = "enough"
WORK = f"import os\nwhile not os.path.exists({ENOUGH!r}):\n    pass"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of JupyterLab on the demo's GPU node; it tells of idle GPUs at once."""
    prepare_home(tmp_path, QUIET_SETTINGS | {"jupyter-hpc/idle": {"minutes": 0.05}})
    write_notebook(home_of(tmp_path) / "train.ipynb", [WORK])
    with demo_server(tmp_path) as address:
        yield address


def test_a_notebook_works_idles_and_lets_go(
    page: Page, address: str, tmp_path: Path, screenshot: Take
) -> None:
    page.goto(re.sub(r"/lab/tree/[^?]*", "/lab", address))  # without the notebook that leads
    panel = show_panel(page)
    panel.get_by_text("demo-gpu1 · 1 × a100").wait_for()
    gpu = panel.get_by_role("region", name=re.compile("GPU 0: Simulated"))
    gpu.get_by_text("simulated", exact=True).wait_for()
    page.goto(re.sub(r"/lab\b.*", "/lab/tree/train.ipynb", address))
    run_cell(page)
    show_panel(page)
    gpu.get_by_role("button", name="train.ipynb").wait_for()
    gpu.get_by_text(re.compile(r"^[1-9]\d* %$")).wait_for()
    screenshot("working")
    (home_of(tmp_path) / ENOUGH).touch()
    page.get_by_text(re.compile(r"GPU 0 has been idle for .* train\.ipynb holds \d+")).wait_for()
    screenshot("idle")
    page.get_by_role("button", name="Shut Down Its Kernel").click()
    page.get_by_text("Python 3 (ipykernel) | Unknown").or_(
        page.get_by_text("No Kernel")
    ).first.wait_for()
    gpu.get_by_role("button", name="train.ipynb").wait_for(state="detached")
