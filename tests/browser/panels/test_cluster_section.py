"""The section "Cluster": what is free, what is out of order, what is mine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.fake_api import FakeApi
from tests.browser.fixtures import Take
from tests.browser.panels.conftest import Show

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(180)


def test_what_is_free_comes_first(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    panel = open_panel()
    panel.get_by_text("12 of 64 free").wait_for()
    panel.get_by_role("meter", name="h100").wait_for()
    order = panel.get_by_text("1 node out of order")
    order.focus()
    page.keyboard.press("Enter")
    reason = panel.get_by_text("gpu07: drained, broken fan")
    reason.wait_for()
    reason.scroll_into_view_if_needed()
    screenshot("cluster")
    panel.get_by_text("1 account").click()
    panel.get_by_text("physics · default · fair share 0.41 · QOS normal long").wait_for()
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    page.evaluate(change, "JupyterLab Dark")
    page.wait_for_selector("body[data-jp-theme-name='JupyterLab Dark']", state="attached")
    screenshot("cluster-dark")
