"""A server with no Slurm and no GPU around it: the extension loads and says what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fixtures import Take
from tests.browser.lab import LabServer, lab_server
from tests.browser.steps import show_panel
from tests.node.boards import write_standin
from tests.tools import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def pictures() -> str:
    return "lab"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    folder = tmp_path_factory.mktemp("lab")
    empty = folder / "no-commands"
    empty.mkdir()
    (folder / "packages").mkdir()
    environment = {"PATH": str(empty), "PYTHONPATH": f"{folder / 'packages'}:{ROOT}"}
    with lab_server(folder, environment=environment) as server:
        yield server


def test_each_section_says_what_is_missing(page: Page, lab: LabServer) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(lab.address())
    panel = show_panel(page)
    panel.get_by_text("This server does not run inside a job of Slurm.").wait_for()
    sections = panel.locator(".jp-Hpc-section")
    expect(sections).to_have_count(5)
    for name in ("GPUs", "Jobs", "Cluster"):
        section = sections.filter(has=page.get_by_role("button", name=name, exact=True))
        sentence = section.locator(".jp-Hpc-problem strong")
        expect(sentence).to_have_text(re.compile(".{20}"))
    storage = sections.filter(has=page.get_by_role("button", name="Storage", exact=True))
    storage.get_by_role("meter").first.wait_for()
    expect(page.locator(".jp-Hpc-status")).to_have_text(re.compile("."))
    assert complaints == []


def test_the_card_of_tensorboard(page: Page, lab: LabServer, screenshot: Take) -> None:
    """It says what to install; then it finds the logs beside the notebook and shows them."""
    runs = lab.notebooks / "project" / "runs" / "first"
    runs.mkdir(parents=True)
    (runs / "events.out.tfevents.1.host").touch()
    cells = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    (runs.parents[1] / "train.ipynb").write_text(cells)
    page.goto(lab.address())
    card = page.locator(".jp-LauncherCard:visible").filter(has_text="TensorBoard")
    card.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("pip install tensorboard").wait_for()
    dialog.get_by_role("button", name="Ok").click()
    write_standin(lab.home.parent / "packages")
    page.evaluate(
        "window.jupyterapp.commands.execute('docmanager:open', {path: 'project/train.ipynb'})"
    )
    page.locator(".jp-NotebookPanel").wait_for()
    if dialog.filter(has_text="Select Kernel").is_visible():
        dialog.get_by_role("button", name="No Kernel").click()
    page.evaluate("window.jupyterapp.commands.execute('launcher:create')")
    card.click()
    expect(dialog.locator("input")).to_have_value("project/runs")
    screenshot("tensorboard-folder")
    dialog.get_by_role("button", name="Open").click()
    shown = page.frame_locator("iframe[src*='/jupyter-hpc/tensorboard/']")
    shown.get_by_text(f"TensorBoard of {runs.parent}").wait_for()
    # Asked for by a page of another site, it is not shown, and its questions are not answered.
    url = page.locator("iframe[src*='/jupyter-hpc/tensorboard/']").get_attribute("src") or ""
    asked = page.context.request
    headers = {"Origin": "http://evil.example"}
    assert asked.post(url + "data", headers=headers).status in (403, 404)
    assert asked.post(url + "data").status == 403
    own = {"Origin": lab.url.rstrip("/")}
    assert asked.post(url + "data", headers=own).status == 200
    assert asked.get(url).headers["content-type"].startswith("text/plain"), "as it says itself"
    policy = asked.get(url).headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy and "sandbox" not in policy
    assert asked.get(url.replace("/1/", "/99/")).status == 404


def test_the_server_log_has_no_traceback(lab: LabServer) -> None:
    log = Path(lab.log).read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in log
