"""A newcomer in the demo: the welcome notebook, three that become jobs, and proposed lines."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.batch.notebooks import write_notebook
from tests.batch.resuming.trainings import PLAIN
from tests.browser.fixtures import Take
from tests.browser.steps import choose_command
from tests.browser.test_demo import prepare_home, wait_for_address
from tests.browser.waiting import wait_until
from tests.tools import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.timeout(600), pytest.mark.faults]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("newcomer")


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    return folder / "demo" / "home"


@pytest.fixture(scope="module")
def address(folder: Path, home: Path) -> Iterator[str]:
    """What the demo prints; it ends as with Ctrl-C."""
    prepare_home(home)
    write_notebook(home / "torch.ipynb", PLAIN)
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
        yield wait_for_address(process, log)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text(errors="replace")


def open_notebook(page: Page, address: str, name: str) -> None:
    """A notebook with its kernel ready."""
    page.goto(re.sub(r"/lab\b.*", f"/lab/tree/{name}", address))
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=60_000)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)


def open_dialog(page: Page) -> Locator:
    """The dialog with its first preview."""
    toolbar = page.locator(".jp-NotebookPanel-toolbar:visible")
    toolbar.get_by_role("button", name="Run as batch job").click()
    dialog = page.get_by_role("dialog").filter(has_text="as batch job")
    save = page.get_by_role("button", name="Save and Go On")
    save.or_(dialog).first.wait_for()
    if save.is_visible():
        save.click()
    dialog.get_by_text("(an estimate)").wait_for()
    return dialog


def output_of(home: Path, name: str) -> str:
    """All that the jobs of a notebook have printed."""
    logs = (home / "hpc-batch" / name / "runs").glob("*/logs/*.out")
    return "\n".join(each.read_text(errors="replace") for each in sorted(logs))


def test_a_newcomer_is_led_through_panel_button_and_results(
    page: Page, address: str, home: Path, screenshot: Take
) -> None:
    """Each notebook is opened, run in the session, and submitted as it is chosen in it."""
    page.goto(address)
    page.get_by_role("heading", name="Welcome").wait_for(timeout=60_000)
    page.locator("#jupyter-hpc-panel").wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    screenshot("welcome")
    for name, here, in_job in (
        ("sweep", "epoch 19 loss:", "epoch 19 loss:"),
        ("two-nodes", "The training needs PyTorch", "process 1 of 2 on demo-"),
        ("train-and-resume", "Not here: No module named", "all 60 epochs are done"),
    ):
        open_notebook(page, address, f"{name}.ipynb")
        choose_command(page, "Run All Cells")
        page.locator(".jp-OutputArea").get_by_text(here).first.wait_for()
        dialog = open_dialog(page)
        screenshot(f"dialog-{name}")
        dialog.get_by_role("button", name="Submit the job").click()
        page.get_by_text(f"{name}.ipynb is job").wait_for()
        wait_until(page, lambda: in_job in output_of(home, name), seconds=150)  # noqa: B023
    assert {"process 0 of 2", "process 1 of 2"} <= set(
        re.findall(r"process \d of \d", output_of(home, "two-nodes"))
    )
    assert re.findall(r"begins at epoch (\d+)", output_of(home, "train-and-resume")) == [
        "0", "20", "40",
    ]  # fmt: skip
    table = (home / "hpc-batch" / "sweep" / "runs").glob("*/output/runs.csv")
    wait_until(page, lambda: any(len(each.read_text().split()) >= 5 for each in table))


def test_proposed_lines_are_applied_and_taken_back(
    page: Page, address: str, screenshot: Take
) -> None:
    page.goto(address)  # with the token
    page.get_by_role("heading", name="Welcome").wait_for(timeout=60_000)
    open_notebook(page, address, "torch.ipynb")
    dialog = open_dialog(page)
    dialog.get_by_text("Nothing of this training is saved").wait_for()
    summary = dialog.get_by_text("Show the lines that let it go on")
    summary.focus()
    page.keyboard.press("Enter")
    dialog.get_by_text("with Run(model=model").wait_for()
    screenshot("proposal")
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    page.evaluate(change, "JupyterLab Dark")
    page.wait_for_selector("body[data-jp-theme-name='JupyterLab Dark']", state="attached")
    screenshot("proposal-dark")
    page.evaluate(change, "JupyterLab Light")
    dialog.get_by_role("button", name="Apply to the notebook").click()
    dialog.get_by_text("Undo there takes them back out").wait_for()
    screenshot("proposal-applied")
    dialog.get_by_role("button", name="Cell 3").click()
    cell = page.locator(".jp-Notebook .jp-Cell").nth(2)
    expect(cell).to_contain_text("with Run(model=model")
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Z")
    expect(cell).not_to_contain_text("with Run(")
    expect(cell).to_contain_text("for x, y in loader:")
