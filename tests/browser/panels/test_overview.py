"""The overview of a job: what there is to look at, in every state and theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import (
    a_job_view,
    a_sweep,
    a_training,
    an_overview,
)
from tests.browser.fixtures import Take
from tests.browser.panels.conftest import Show
from tests.browser.panels.test_panel_looks import FITS, contrast
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(180)


def open_job(page: Page, open_panel: Show, job: str = "1000") -> Locator:
    open_panel().get_by_role("button", name=f"train-{job}").click()
    view = page.locator(".jp-Hpc-jobview")
    view.get_by_role("tab", name="Overview", selected=True).wait_for()
    return view


def test_a_training_that_runs(page: Page, api: FakeApi, open_panel: Show, screenshot: Take) -> None:
    api.overviews["1000"] = a_training("1000", 36, figures=3)
    view = open_job(page, open_panel)
    view.get_by_text("36 of 90 epochs done").wait_for()
    slider = view.get_by_role("slider", name="val_loss: values")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "epoch 1: 0.9")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "epoch 2: 0.81")
    for name in ("cell01_1.svg", "cell03_1.svg"):
        picture = view.get_by_role("img", name=name)
        wait_until(page, lambda: picture.evaluate("image => image.naturalWidth") == 320)  # noqa: B023
    view.get_by_text("GPU load, the mean of 2 GPUs").wait_for()
    screenshot("overview")
    api.overviews["1000"] = a_training("1000", 37, figures=3)
    view.get_by_text("37 of 90 epochs done").wait_for(timeout=20_000)
    slider.blur()
    page.mouse.move(0, 0)
    expect(slider).to_have_attribute("aria-valuenow", "37")
    view.get_by_text("One more number").click()
    view.get_by_role("slider", name="lr: values").wait_for()
    screenshot("overview-more", of=view)


def test_a_sweep_while_it_runs(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.overviews["1000"] = a_sweep("1000", 6, 20)
    view = open_job(page, open_panel)
    expect(view.locator("header").get_by_role("status")).to_have_text(
        "4 ✓ done 1 ● running 1 ◌ waiting "
    )
    table = view.get_by_role("table", name="the best loss first")
    expect(table.get_by_role("row")).to_have_count(7)
    assert view.locator(".jp-Hpc-curve-canvas .jp-Hpc-curve-line").count() == 5
    screenshot("overview-sweep")
    view.get_by_label("all", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(view.get_by_label("0", exact=True)).to_be_checked()
    expect(table).to_have_count(0)


def test_pages_without_anything(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.overviews["1000"] = an_overview("1000", is_run=True)
    api.views["1000"] = a_job_view("1000")
    api.views["1000"]["files"]["recording"] = False
    view = open_job(page, open_panel)
    view.get_by_text("There is nothing to look at yet").wait_for()
    screenshot("overview-empty")
    api.errors["jobs/1001/overview"] = {
        "message": "The folder of the runs has not answered within 30 s.",
        "hint": "The file system may be overloaded or gone; try again in a minute.",
        "status": 504,
    }
    open_job(page, open_panel, "1001").get_by_text("has not answered within 30 s").wait_for()
    screenshot("overview-failed")


def test_in_every_theme_and_width(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.overviews["1000"] = a_sweep("1000", 6, 20)
    view = open_job(page, open_panel)
    view.get_by_role("table").wait_for()
    for theme in ("JupyterLab Dark", "JupyterLab Dark High Contrast", "JupyterLab Light"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
        )
        page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
        page.locator("#jupyterlab-splash").wait_for(state="detached")
        for part in (".jp-Hpc-stateword", ".jp-Hpc-curve-legend li", "th", ".jp-Hpc-curve-y span"):
            assert contrast(view.locator(part).first) > 4.5, (theme, part)
        name = theme.replace("JupyterLab ", "").replace(" ", "-").lower()
        screenshot(f"overview-{name}", of=view)
    size = page.viewport_size
    page.set_viewport_size({"width": 640, "height": 900})
    wait_until(page, lambda: view.locator(".jp-Hpc-overview").evaluate(FITS))
    screenshot("overview-narrow")
    if size is not None:
        page.set_viewport_size(size)
