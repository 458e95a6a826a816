"""A newcomer in the demo: the welcome notebook, three that become jobs, and proposed lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.batch.notebooks import write_notebook
from tests.batch.resuming.trainings import PLAIN
from tests.browser.demo import demo_server, home_of, prepare_home
from tests.browser.fixtures import Take
from tests.browser.steps import choose_command, hold_notifications
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.timeout(600), pytest.mark.faults]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("newcomer")


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    return home_of(folder)


@pytest.fixture(scope="module")
def address(folder: Path, home: Path) -> Iterator[str]:
    prepare_home(folder)
    write_notebook(home / "torch.ipynb", PLAIN)
    with demo_server(folder) as address:
        yield address


def wait_for_notebook(page: Page, name: str) -> Locator:
    """The notebook in front, with its kernel ready. Those opened before stay hidden in the page."""
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=60_000)
    tab = page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-current")
    tab.filter(has_text=name).wait_for(timeout=60_000)
    notebook = page.locator(".jp-NotebookPanel:visible")
    notebook.locator(".jp-Cell").first.wait_for(timeout=60_000)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    return notebook


def follow_link(page: Page, name: str) -> Locator:
    """The notebook that a link of the welcome notebook opens."""
    page.locator("#jp-main-dock-panel .lm-TabBar-tab").filter(has_text="welcome.ipynb").click()
    wait_for_notebook(page, "welcome.ipynb").get_by_role("link", name=name).click()
    return wait_for_notebook(page, name)


def scroll_to(page: Page, notebook: Locator, text: str) -> None:
    """Look through a notebook for an output; cells that are far off are not in the page."""
    output = notebook.locator(".jp-OutputArea").get_by_text(text).first
    scroller = notebook.locator(".jp-WindowedPanel-outer")

    def is_seen() -> bool:
        if output.is_visible():
            return True
        scroller.evaluate(
            "area => area.scrollTop = area.scrollTop ? area.scrollTop - 200 : area.scrollHeight"
        )
        return False

    wait_until(page, is_seen)
    output.scroll_into_view_if_needed()


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
    panel = page.locator("#jupyter-hpc-panel")
    panel.wait_for()
    hold_notifications(page)
    wait_for_notebook(page, "welcome.ipynb").locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    panel.get_by_text(re.compile(r"^[1-9]\d* %$")).first.wait_for()
    screenshot("welcome")
    for name, here, in_job in (
        ("sweep", "epoch 19 loss:", "epoch 19 loss:"),
        ("two-nodes", "The training needs PyTorch", "process 1 of 2 on demo-"),
        ("train-and-resume", "Not here: No module named", "all 30 epochs are done"),
    ):
        notebook = follow_link(page, f"{name}.ipynb")
        choose_command(page, "Run All Cells")
        scroll_to(page, notebook, here)
        screenshot(f"ran-{name}")
        dialog = open_dialog(page)
        screenshot(f"dialog-{name}")
        dialog.get_by_role("button", name="Submit the job").click()
        page.get_by_text(f"{name}.ipynb is job").wait_for()
        wait_until(page, lambda: in_job in output_of(home, name), seconds=150)  # noqa: B023
    said = re.findall(r"process (\d of 2)", output_of(home, "two-nodes"))
    assert set(said) == {"0 of 2", "1 of 2"}
    assert re.findall(r"begins at epoch (\d+)", output_of(home, "train-and-resume")) == [
        "0", "10", "20",
    ]  # fmt: skip
    table = (home / "hpc-batch" / "sweep" / "runs").glob("*/output/runs.csv")
    wait_until(page, lambda: any(len(each.read_text().split()) >= 5 for each in table))
    told = page.locator(".Toastify__toast").filter(has_text="train-and-resume.ipynb is job")
    told.get_by_role("button", name="Open the Job").click()
    view = page.locator("#jp-main-dock-panel")
    view.get_by_role("tab", name="Log", exact=True).click()
    view.locator(".jp-Hpc-log-block").get_by_text("begins at epoch").first.wait_for()
    screenshot("job")
    view.get_by_role("tab", name="Files").click()
    screenshot("results")


def test_proposed_lines_are_applied_and_taken_back(
    page: Page, address: str, home: Path, screenshot: Take
) -> None:
    """A chain that would begin at zero each time is refused, until the lines are there."""
    page.goto(address)  # with the token
    page.get_by_role("heading", name="Welcome").wait_for(timeout=60_000)
    page.goto(re.sub(r"/lab\b.*", "/lab/tree/torch.ipynb", address))
    wait_for_notebook(page, "torch.ipynb")
    dialog = open_dialog(page)
    dialog.get_by_text("Nothing of this training is saved").wait_for()
    dialog.get_by_text("1 error").wait_for()  # torch is not in the demo
    dialog.get_by_text("How it runs").click()
    dialog.get_by_label("Chain of runs").fill("3")
    dialog.get_by_text("2 errors").wait_for()
    screenshot("refused")
    expect(dialog.get_by_role("button", name="Submit the job")).to_be_disabled()
    summary = dialog.get_by_text("Show the lines that let it go on")
    summary.focus()
    page.keyboard.press("Enter")
    dialog.get_by_text("with Run(model=model").wait_for()
    screenshot("proposal")
    shown = dialog.locator("pre").filter(has_text="with Run(model=model").inner_text()
    before = json.loads((home / "torch.ipynb").read_text())
    dialog.get_by_role("button", name="Apply to the notebook").click()
    dialog.get_by_text("Undo there takes them back out").wait_for()
    screenshot("proposal-applied")
    after = json.loads((home / "torch.ipynb").read_text())
    sources = [["".join(cell["source"]) for cell in each["cells"]] for each in (before, after)]
    assert sources[0][:2] + sources[0][3:] == sources[1][:2] + sources[1][3:]
    kept, added = ("".join(f"{line[1:]}\n" for line in shown.splitlines()[1:] if line[:1] in sign)
                   for sign in (" -", " +"))  # fmt: skip
    assert (kept.strip(), added.strip()) == (sources[0][2].strip(), sources[1][2].strip())
    dialog.get_by_text("1 error").wait_for()
    dialog.get_by_role("button", name="Cell 3").click()
    cell = page.locator(".jp-NotebookPanel:visible .jp-Cell").nth(2)
    expect(cell).to_contain_text("with Run(model=model")
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Z")
    expect(cell).not_to_contain_text("with Run(")
    expect(cell).to_contain_text("for x, y in loader:")
