"""One JupyterLab for a module of tests, with a server behind it that answers as it is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.fake_api import FakeApi
from tests.browser.fixtures import SCREENSHOTS_VARIABLE, patient_tab
from tests.browser.lab import LabServer, lab_server
from tests.browser.steps import show_panel
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

Show = Callable[..., "Locator"]

#: Close documents, changed ones too, and notifications; show the queue.
TIDY_UP = """
() => {
  for (const widget of [...window.jupyterapp.shell.widgets('main')]) widget.dispose();
  document.querySelectorAll('.jp-toast-button-bar ~ button, .Toastify__close-button')
    .forEach(button => button.click());
  document.querySelector('#jupyter-hpc-panel .jp-Hpc-choice')?.click();
}
"""


@pytest.fixture(scope="module")
def pictures() -> str:
    return "panels"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with lab_server(tmp_path_factory.mktemp("lab")) as server:
        (server.notebooks / "train.ipynb").write_text(
            '{"cells": [], "metadata": {"kernelspec": {"name": "python3", "display_name": "Python",'
            ' "language": "python"}}, "nbformat": 4, "nbformat_minor": 5}'
        )
        yield server


@pytest.fixture(scope="module")
def tab(context: BrowserContext, lab: LabServer) -> Iterator[tuple[Page, FakeApi]]:
    """One tab for all tests: to load JupyterLab takes longer than to look at something."""
    page = patient_tab(context)
    yield page, FakeApi(page)
    page.close()


@pytest.fixture
def page(tab: tuple[Page, FakeApi]) -> Page:
    return tab[0]


@pytest.fixture
def api(tab: tuple[Page, FakeApi]) -> FakeApi:
    tab[1].reset()
    return tab[1]


@pytest.fixture
def open_panel(page: Page, api: FakeApi, lab: LabServer) -> Show:
    """Show the panel with the answers of `api`; returns it.

    JupyterLab is loaded for the first test, for one that needs it fresh, and for pictures.
    """

    def show(fresh: bool = False) -> Locator:
        if fresh or "/lab" not in page.url or SCREENSHOTS_VARIABLE in os.environ:
            page.goto(lab.address("lab/workspaces/test") + "&reset")
            panel = show_panel(page)
            wait_until(page, lambda: "reset" not in page.url)  # a reload would do it again
        else:
            panel = show_panel(page)
            page.evaluate(TIDY_UP)
            api.push()
            panel.get_by_text(f"Queue ({len(api.jobs['jobs'])})").wait_for()
        # The launcher, which fills an empty main area, has taken the focus when it has cards.
        page.locator(".jp-LauncherCard").first.wait_for(state="attached")
        return panel

    return show
