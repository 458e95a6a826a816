"""What a person does in JupyterLab's window again and again, at any speed of the machine."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

#: A notification closes itself when the bar of its time has run out.
_HELD = ".Toastify__progress-bar { animation-play-state: paused !important; }"


def show_panel(page: Page) -> Locator:
    """The HPC panel, open.

    The main area is filled when the layout is restored; a panel that was opened before
    would be closed by that.
    """
    page.locator("#jp-main-dock-panel .lm-TabBar-tab").first.wait_for(timeout=60_000)
    panel = page.locator("#jupyter-hpc-panel")
    if not panel.is_visible():
        page.get_by_role("tab", name="HPC").click()
    panel.wait_for()
    return panel


def choose_command(page: Page, name: str) -> None:
    """Run a command by the palette.

    It closes when something that was just loaded takes the focus, so it is opened again;
    and it is the search that puts the command in the first place.
    """
    from playwright.sync_api import TimeoutError as TooLate
    from playwright.sync_api import expect

    palette = page.locator("#modal-command-palette")
    first = palette.locator(".lm-CommandPalette-item").first
    for _ in range(6):
        page.keyboard.press("Control+Shift+C")
        with suppress(TooLate, AssertionError):
            palette.locator("input").fill(name, timeout=10_000)
            expect(first).to_contain_text(name, timeout=10_000)
            first.click(timeout=10_000)
            return
    raise AssertionError(f"the palette did not offer “{name}”")


def run_cell(page: Page) -> None:
    """Run the notebook's active cell by its button, which needs no focus."""
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    page.locator(".jp-NotebookPanel-toolbar").get_by_role(
        "button", name=re.compile("^Run this cell")
    ).click()


def hold_notifications(page: Page) -> None:
    """Let those stay that would go after seconds, until they are clicked or closed."""
    page.add_style_tag(content=_HELD)
