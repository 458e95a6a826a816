"""A real Chromium, driven by Playwright; a plugin for the whole test run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.launching import launch_options
from tests.tools import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

#: Milliseconds that a busy machine may take for anything.
WAIT_MILLISECONDS = 45_000

#: Where screenshots go when somebody wants to look at them.
SCREENSHOTS_VARIABLE = "JUPYTER_HPC_SCREENSHOTS"

#: Keeps a picture under a name: the fixture `screenshot`.
Take = Callable[..., None]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for a module of tests.

    Not for the whole run: while Playwright's synchronous side is open, its event
    loop counts as running, and the async tests of other modules could not start theirs.
    """
    from playwright.sync_api import expect, sync_playwright

    options = launch_options()
    expect.set_options(timeout=WAIT_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for a module of tests, so that JupyterLab's files are loaded once."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A fresh tab."""
    page = patient_tab(context)
    yield page
    page.close()


def patient_tab(context: BrowserContext) -> Page:
    """A tab that gives a busy machine its time.

    There JupyterLab gives its own theme up after a moment, and says so in a dialog.
    """
    page = context.new_page()
    page.set_default_timeout(WAIT_MILLISECONDS)
    theme = page.get_by_role("dialog").filter(has_text="Error Loading Theme")
    page.add_locator_handler(theme, lambda: theme.get_by_role("button").last.click())
    return page


@pytest.fixture(scope="module")
def pictures(request: pytest.FixtureRequest) -> str:
    """What the names of a module's pictures begin with."""
    return request.path.stem.removeprefix("test_")


@pytest.fixture
def screenshot(page: Page, pictures: str) -> Take:
    """screenshot("dark") keeps a picture if JUPYTER_HPC_SCREENSHOTS names a folder.

    With a locator, that part of the page is brought into view first.
    """
    folder = os.environ.get(SCREENSHOTS_VARIABLE)

    def take(name: str, of: Locator | None = None) -> None:
        if folder:
            if of is not None:
                of.first.evaluate("node => node.scrollIntoView({block: 'center'})")
            page.wait_for_timeout(500)
            path = ROOT / folder / f"{pictures}-{name}.png"
            page.screenshot(path=path)

    return take
