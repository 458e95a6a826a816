"""The page of all runs: its states, its table, what is compared, and what is deleted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi
from tests.browser.fake_runs import a_holding, some_curves, some_runs
from tests.browser.fixtures import Take
from tests.browser.panels.conftest import Show
from tests.browser.steps import choose_command, hold_notifications

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(180)

#: A thousand runs are there within so many seconds on a busy machine; seen: 0.3.
PATIENCE_SECONDS = 10.0

#: What a page that was there before knows is asked for anew.
SHOW_RUNS = """
async () => {
  for (let time = 0; time < 2; time += 1) {
    await window.jupyterapp.commands.execute('jupyter-hpc:show-runs');
  }
}
"""

OPEN_NOTEBOOK = """
async () => {
  await window.jupyterapp.commands.execute('docmanager:open', {path: 'train.ipynb'});
}
"""


@pytest.fixture
def open_runs(page: Page, api: FakeApi, open_panel: Show) -> Callable[..., Locator]:
    """Show the page of runs with the answers of `api`."""

    def show(wait: bool = True) -> Locator:
        open_panel()
        page.evaluate(SHOW_RUNS)
        runs = page.locator(".jp-Hpc-runspage")
        if wait:
            runs.get_by_role("table", name="Runs").wait_for()
        return runs

    return show


def rows_of(runs: Locator) -> Locator:
    return runs.get_by_role("table", name="Runs").locator("tbody tr:not([aria-hidden])")


def test_a_thousand_runs(
    page: Page, api: FakeApi, open_runs: Callable[..., Locator], screenshot: Take
) -> None:
    api.runs = some_runs(1000)
    begun = time.monotonic()
    runs = open_runs()
    assert time.monotonic() - begun < PATIENCE_SECONDS + 60
    assert 5 < rows_of(runs).count() < 60, "only what can be seen is drawn"
    screenshot("thousand", of=runs)
    runs.get_by_role("button", name="loss").click()
    expect(runs.get_by_role("columnheader", name="loss")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(rows_of(runs).first).to_contain_text("sweep of 6")
    runs.get_by_label("Search runs").fill("4500")
    expect(rows_of(runs)).to_have_count(1)
    runs.get_by_role("button", name="Show all").click()
    runs.get_by_label("State").select_option("failed")
    expect(rows_of(runs)).to_have_count(1)
    expect(rows_of(runs)).to_contain_text("code 137")


def test_a_sweep_is_compared(
    page: Page, api: FakeApi, open_runs: Callable[..., Locator], screenshot: Take
) -> None:
    api.curves = some_curves([f"4999_{task}" for task in range(1, 7)])
    runs = open_runs()
    runs.get_by_role("button", name="train.ipynb").click()
    screenshot("sweep", of=runs)
    runs.get_by_label("Choose 4999", exact=True).check()
    runs.get_by_role("button", name="Compare").click()
    table = runs.get_by_role("table", name="What differs")
    expect(table.get_by_role("row", name="lr")).to_contain_text("0.001")
    expect(table.get_by_role("row", name="loss")).to_contain_text("0.014 best")
    expect(table.get_by_role("rowheader", name="layers")).to_have_count(0)
    runs.get_by_role("heading", name="loss").wait_for()
    screenshot("compare", of=runs)
    runs.get_by_role("button", name="Close").click()
    expect(table).to_have_count(0)


def test_a_run_is_deleted_by_keyboard_alone(
    page: Page, api: FakeApi, open_runs: Callable[..., Locator], screenshot: Take
) -> None:
    api.holdings = [a_holding("4997"), a_holding("4998", message="Run 4998 is in the queue.")]
    runs = open_runs()
    runs.get_by_label("Choose 4997").focus()
    page.keyboard.press("Space")
    runs.get_by_text("1 run chosen").wait_for()
    runs.get_by_role("button", name="Delete…").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3.2 GiB")
    expect(dialog).to_contain_text("/home/alice/project/hpc-batch/train")
    expect(dialog).to_contain_text("Run 4998 is in the queue.")
    expect(dialog.get_by_role("button", name="Back")).to_be_focused()
    screenshot("delete")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert api.actions == [], "Enter alone deletes nothing"
    page.keyboard.press("Enter")  # the button has the focus again
    expect(dialog.get_by_role("button", name="Back")).to_be_focused()
    page.keyboard.press("Tab")
    hold_notifications(page)
    page.keyboard.press("Enter")
    runs.get_by_text("0 runs chosen").wait_for()
    ((verb, body),) = api.actions
    named = {name: a_holding("4997")[name] for name in ("id", "run_dir", "mark")}
    assert (verb, json.loads(body)) == ("delete", {"runs": [named]})


def test_empty_stale_and_failed_are_said(
    page: Page, api: FakeApi, open_runs: Callable[..., Locator], screenshot: Take
) -> None:
    api.runs = some_runs(0)
    runs = open_runs(wait=False)
    runs.get_by_role("button", name="Run a notebook as batch job").wait_for()
    screenshot("empty", of=runs)
    api.runs = some_runs() | {
        "age": 400.0,
        "problem": {"message": "Slurm does not answer.", "hint": "Older data is shown."},
    }
    runs = open_runs()
    runs.get_by_text("Slurm does not answer.").wait_for()
    runs.get_by_text("6 min old").wait_for()
    screenshot("stale", of=runs)


def test_it_is_in_palette_menu_launcher_and_notebook(
    page: Page, api: FakeApi, open_panel: Show
) -> None:
    open_panel()
    choose_command(page, "All Runs")
    page.get_by_role("table", name="Runs").wait_for()
    open_panel()
    page.locator(".jp-LauncherCard").filter(has_text="All Runs").click()
    page.get_by_role("table", name="Runs").wait_for()
    page.get_by_role("menuitem", name="View", exact=True).click()
    page.get_by_role("menuitem", name="All Runs").wait_for()
    page.keyboard.press("Escape")
    page.evaluate(OPEN_NOTEBOOK)
    page.locator(".jp-NotebookPanel-toolbar").get_by_role("button", name="Runs").click()
    expect(page.locator(".jp-Hpc-runspage select").first).to_have_value("train.ipynb")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Dark High Contrast"])
def test_other_themes(
    page: Page, api: FakeApi, open_runs: Callable[..., Locator], screenshot: Take, theme: str
) -> None:
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    runs = open_runs()
    try:
        page.evaluate(change, theme)
        page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
        page.locator("#jupyterlab-splash").wait_for(state="detached")
        screenshot(theme.replace("JupyterLab ", "").replace(" ", "-").lower(), of=runs)
    finally:
        page.evaluate(change, "JupyterLab Light")
        page.wait_for_selector("body[data-jp-theme-name='JupyterLab Light']", state="attached")
