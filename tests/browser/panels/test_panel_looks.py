"""The panel in every theme and width, and the ways to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import a_session
from tests.browser.fixtures import Take
from tests.browser.panels.conftest import Show
from tests.browser.sentences import sentences
from tests.browser.steps import choose_command
from tests.browser.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(180)

#: Nothing is cut off at the right.
FITS = "node => node.scrollWidth <= node.clientWidth"

#: The contrast of an element's text with what is behind it, as the web guidelines count it.
CONTRAST = """
node => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  let behind = node;
  while (numbers(getComputedStyle(behind).backgroundColor)[3] === 0) {
    behind = behind.parentElement;
  }
  const back = numbers(getComputedStyle(behind).backgroundColor);
  const [red, green, blue, share = 1] = numbers(getComputedStyle(node).color);
  const text = [red, green, blue].map((value, i) => share * value + (1 - share) * back[i]);
  const light = colour => colour.slice(0, 3)
    .map(value => value / 255)
    .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, i) => sum + [0.2126, 0.7152, 0.0722][i] * value, 0);
  const [low, high] = [light(text), light(back)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
"""


def test_dark_and_high_contrast(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    api.session = a_session(minutes_left=25)
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    panel.get_by_label("Select job 1001").check()
    page.locator(".jp-Hpc-status.jp-mod-warn").wait_for()
    page.wait_for_selector("body[data-jp-theme-name='JupyterLab Light']", state="attached")
    light = background(panel)
    for theme in ("JupyterLab Dark", "JupyterLab Dark High Contrast", "JupyterLab Light"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
        )
        page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
        page.locator("#jupyterlab-splash").wait_for(state="detached")
        assert (background(panel) == light) is (theme == "JupyterLab Light")
        selected = panel.locator("tr.jp-mod-selected")
        times = panel.locator(".jp-Hpc-chart-axis span").first
        for part in (panel, selected, times, page.locator(".jp-Hpc-status")):
            assert contrast(part) > 4.5, (theme, part)
        name = theme.replace("JupyterLab ", "").replace(" ", "-").lower()
        screenshot(name)
        screenshot(f"{name}-jobs", of=panel.locator(".jp-Hpc-jobs"))
    panel.get_by_label("Select job 1001").uncheck()


def test_wide_and_narrow_panel(
    page: Page, api: FakeApi, open_panel: Show, screenshot: Take
) -> None:
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    expect(panel.get_by_role("columnheader", name="Resources")).to_have_count(0)
    move_edge(page, 900)
    panel.get_by_role("columnheader", name="Resources").wait_for()
    screenshot("wide", of=panel.locator(".jp-Hpc-jobs"))
    move_edge(page, 60)
    panel.get_by_role("columnheader", name="Resources").wait_for(state="detached")
    for number, (topic, sentence) in enumerate(sentences()):
        api.errors = {topic: {"message": sentence.message, "hint": sentence.hint}}
        api.push(topic)
        told = panel.get_by_text(sentence.message)
        told.wait_for()
        panel.get_by_text(sentence.hint).first.wait_for()
        wait_until(page, lambda: bool(panel.evaluate(FITS)))
        if number == 0:
            screenshot("narrow")
        screenshot(f"sentence-{number}", of=told)
    move_edge(page, 280)


def move_edge(page: Page, to: int) -> None:
    """Drag the panel's right edge."""
    edge = page.locator("#jp-main-split-panel > .lm-SplitPanel-handle").first
    edge.hover()
    box = edge.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(to, box["y"] + 300, steps=5)
    page.mouse.up()


def test_commands_are_in_the_palette(page: Page, api: FakeApi, open_panel: Show) -> None:
    open_panel()
    choose_command(page, "Open a Job")
    dialog = page.get_by_role("dialog")
    dialog.locator("input").fill("1002")
    dialog.get_by_role("button", name="Ok").click()
    page.locator(".jp-Hpc-jobview").get_by_role("heading", name="train-1002").wait_for()


def test_the_launcher_has_a_card(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    page.get_by_role("tab", name="HPC").click()
    panel.wait_for(state="hidden")
    page.locator(".jp-LauncherCard").filter(has_text="Show the HPC Panel").click()
    panel.wait_for()


def test_the_keyboard_is_enough(page: Page, api: FakeApi, open_panel: Show) -> None:
    panel = open_panel()
    panel.get_by_label("Filter jobs").focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(panel.get_by_label("Select job 1000")).to_be_focused()
    page.keyboard.press("Space")
    panel.get_by_text("1 selected").wait_for()
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
    expect(panel.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("Cancel this job?").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert api.actions == []
    panel.get_by_label("Select job 1000").press("Space")
    panel.get_by_text("1 selected").wait_for(state="detached")
    heading = panel.get_by_role("button", name="Storage", exact=True)
    heading.press("Enter")
    expect(heading).to_have_attribute("aria-expanded", "false")
    heading.press("Enter")
    expect(heading).to_have_attribute("aria-expanded", "true")


def contrast(part: Locator) -> float:
    found: float = part.evaluate(CONTRAST)
    return found


def background(panel: Locator) -> str:
    colour: str = panel.evaluate("node => getComputedStyle(node).backgroundColor")
    return colour


def test_colours_of_the_system_keep_meters_and_the_chosen_list(
    page: Page, open_panel: Show, screenshot: Take
) -> None:
    panel = open_panel()
    panel.get_by_role("row").first.wait_for()
    page.emulate_media(forced_colors="active")
    try:
        track = panel.locator(".jp-Hpc-bar-track").first
        assert track.evaluate("node => getComputedStyle(node).borderTopWidth") == "1px"
        fill, back = (
            part.evaluate("node => getComputedStyle(node).backgroundColor")
            for part in (track.locator("div"), track)
        )
        assert fill != back
        chosen = panel.locator(".jp-Hpc-choice[aria-pressed='true']").first
        other = panel.locator(".jp-Hpc-choice[aria-pressed='false']").first
        assert chosen.evaluate("node => getComputedStyle(node).borderBottomWidth") == "3px"
        assert other.evaluate("node => getComputedStyle(node).borderBottomWidth") != "3px"
        screenshot("forced-colours")
    finally:
        page.emulate_media(forced_colors="none")


def test_menu_and_key_lead_to_the_panel(page: Page, open_panel: Show, screenshot: Take) -> None:
    """With the keyboard alone: the key shows the panel, and goes on in it."""
    open_panel()
    page.keyboard.press("Alt+Shift+h")
    wait_until(
        page,
        lambda: page.evaluate("document.activeElement.className") == "jp-Hpc-section-title",
    )
    page.get_by_role("menuitem", name="HPC", exact=True).click()
    menu = page.locator(".lm-Menu")
    menu.get_by_text("Show the HPC Panel").wait_for()
    for label in (
        "Run as batch job",
        "Runs",
        "Open a Job",
        "Refresh the List of Jobs",
        "TensorBoard",
    ):
        expect(menu.get_by_text(label)).not_to_have_count(0)
    screenshot("menu")
    page.keyboard.press("Escape")
