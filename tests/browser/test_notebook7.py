"""The panels in Notebook 7, which has no status bar, no launcher and one document a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import a_session
from tests.browser.fixtures import Take
from tests.browser.lab import LabServer, lab_server
from tests.browser.steps import choose_command

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    options = ("--JupyterNotebookApp.expose_app_in_browser=True",)
    folder = tmp_path_factory.mktemp("notebook")
    with lab_server(folder, module="notebook", options=options) as server:
        (server.notebooks / "train.ipynb").write_text(
            '{"cells": [], "metadata": {"kernelspec": {"name": "python3", "display_name": "Python",'
            ' "language": "python"}}, "nbformat": 4, "nbformat_minor": 5}'
        )
        yield server


def open_panel(page: Page) -> Locator:
    panel = page.locator("#jupyter-hpc-panel")
    panel.wait_for(state="attached")
    page.locator(".jp-DirListing-item, .jp-Notebook .jp-Cell").first.wait_for()
    choose_command(page, "Show the HPC Panel")
    panel.wait_for()
    return panel


def test_a_job_opens_beside_the_files(page: Page, notebook: LabServer, screenshot: Take) -> None:
    api = FakeApi(page)
    api.logs["1000"] = "epoch 1\n"
    page.goto(notebook.address("tree"))
    panel = open_panel(page)
    panel.get_by_role("button", name="train-1000").click()
    view = page.locator(".jp-Hpc-jobview")
    view.get_by_role("tab", name="Log").click()
    view.get_by_role("region", name="Output").get_by_text("epoch 1").wait_for()
    view.get_by_role("tab", name="Details").click()
    view.get_by_text("1 node · 8 CPUs").wait_for()
    screenshot("job")
    panel.get_by_role("button", name="train-1001").click()
    view.get_by_role("heading", name="train-1001").wait_for()


def test_the_panel_and_the_warning_beside_a_notebook(
    page: Page, notebook: LabServer, screenshot: Take
) -> None:
    api = FakeApi(page)
    page.goto(notebook.address("notebooks/train.ipynb"))
    panel = open_panel(page)
    panel.get_by_text("2 h 24 min", exact=True).wait_for()
    api.session = a_session(minutes_left=2)
    api.push("session")
    page.get_by_text("This session ends in 1 min. All documents are saved.").wait_for()
    screenshot("warning")
