"""The status page in a real Chromium, served by a real proxy."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from jupyter_hpc.connect.proxy.server import LocalProxy
from tests.browser.fixtures import SCREENSHOTS_VARIABLE
from tests.browser.launching import launch_options
from tests.connect.proxy.helpers import CONTROL_SECRET, World, running_world
from tests.connect.proxy.test_page import HOSTILE
from tests.tools import ROOT
from tests.waiting import stays, until


@pytest.fixture
async def tab() -> AsyncIterator[Page]:
    options = launch_options()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        page = await browser.new_page(viewport={"width": 900, "height": 700})
        page.set_default_timeout(40_000)
        yield page
        await browser.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world(opened=False) as world:
        yield world


async def picture(tab: Page, name: str) -> None:
    folder = os.environ.get(SCREENSHOTS_VARIABLE)
    if folder:
        await tab.screenshot(path=ROOT / Path(folder) / f"page-{name}.png")


async def test_the_page_becomes_jupyterlab_in_the_same_tab(world: World, tab: Page) -> None:
    problems: list[str] = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    world.state.update(
        title="Ulysses at SISSA",
        text="Other jobs are ahead of yours.",
        job_id="4711",
        since=time.time() - 100,
        estimated_start=time.time() + 5000,
        warnings=["The job's time limit comes in 10 minutes."],
    )
    address = f"http://localhost:{world.port}/lab/tree/a.ipynb?reset=1"
    await tab.goto(address)
    await tab.get_by_role("heading", name="Waiting in the queue").wait_for()
    await tab.get_by_text("4711").wait_for()
    await picture(tab, "light")
    await tab.emulate_media(color_scheme="dark")
    await picture(tab, "dark")
    world.state.update(state="running", text="Starting JupyterLab on gpu01.", node="gpu01")
    await tab.get_by_role("heading", name="Starting JupyterLab").wait_for()
    await tab.get_by_text("gpu01", exact=True).wait_for()
    assert await tab.title() == "Starting JupyterLab · Ulysses at SISSA"
    assert problems == []
    await world.open()
    await tab.locator("#lab").wait_for()
    assert tab.url == address and await tab.title() == "JupyterLab"
    assert await tab.locator("#lab").text_content() == "lab /lab/tree/a.ipynb known"


async def test_hostile_text_stays_text(world: World, tab: Page) -> None:
    dialogs: list[str] = []

    async def note(dialog: object) -> None:
        dialogs.append("opened")

    tab.on("dialog", note)
    world.state.update(text=HOSTILE, title=HOSTILE, warnings=[HOSTILE], job_id=HOSTILE)
    await tab.goto(f"http://localhost:{world.port}/lab")
    world.state.update(advice=HOSTILE, node=HOSTILE)  # now through the script
    await tab.get_by_text("onerror").nth(4).wait_for()
    assert await tab.locator("img").count() == 0 and dialogs == []
    assert "<img src=x onerror=alert(1)>" in (await tab.locator("#advice").text_content() or "")


async def test_a_button_acts_after_its_question(world: World, tab: Page) -> None:
    await tab.goto(f"http://localhost:{world.port}/lab")
    await tab.get_by_role("button", name="Cancel the job").click()
    await tab.get_by_text("It loses its place in the queue.").wait_for()
    await tab.get_by_role("button", name="Keep it").click()
    await stays(lambda: world.done == [], seconds=0.2)
    await tab.get_by_role("button", name="Cancel the job").click()
    await tab.get_by_role("button", name="Yes, cancel it").click()
    await until(lambda: world.done)
    assert world.done == [("stop", {"while": "pending", "where": "page"})]
    world.state.update(
        state="ended", text="The job was cancelled by you.", questions={"again": "again-1"}
    )
    await tab.get_by_role("button", name="Start again").wait_for()
    await picture(tab, "ended")


async def test_a_renewal_is_offered_with_its_cost(world: World, tab: Page) -> None:
    """While JupyterLab is away, too, the session can be given its successor in time."""
    cost = "Both jobs run side by side for at most 10 minutes, about 1.00 EUR."
    world.state.update(state="reconnecting", text="The link is away.", ends_at=time.time() + 7200)
    world.state.update(renewal=cost)
    await tab.goto(f"http://localhost:{world.port}/lab")
    await tab.get_by_role("heading", name="Reconnecting").wait_for()
    renew = tab.get_by_role("button", name="Renew", exact=True)
    assert await renew.count() == 0, "the time limit is far away"
    world.state.update(ends_at=time.time() + 600)
    await renew.click()
    await tab.get_by_text(cost).wait_for()
    await picture(tab, "renew")
    await tab.get_by_role("button", name="Not now").click()
    await stays(lambda: world.done == [], seconds=0.2)
    await renew.click()
    await tab.get_by_role("button", name="Yes, renew").click()
    await until(lambda: world.done)
    assert world.done == [("renew", {"where": "page"})]
    world.state.update(renewal="")  # it is on its way
    await renew.wait_for(state="detached")


async def test_a_question_disappears_when_there_is_nothing_more_to_answer(
    world: World, tab: Page
) -> None:
    await tab.goto(f"http://localhost:{world.port}/lab")
    await tab.get_by_role("button", name="Cancel the job").click()
    await tab.get_by_text("It loses its place in the queue.").wait_for()
    world.state.update(state="running", text="The job has its node.")
    await tab.get_by_text("It loses its place in the queue.").wait_for(state="detached")
    world.state.update(state="ended", text="Over.", questions={"again": "again-1"})
    await tab.get_by_role("button", name="Start again").wait_for()
    world.state.update(questions={})
    await tab.get_by_role("button").wait_for(state="detached")
    assert world.done == []


async def test_a_proxy_that_ends_is_said_and_one_that_returns_is_found(
    world: World, tab: Page
) -> None:
    await tab.goto(f"http://localhost:{world.port}/lab")
    await tab.get_by_role("heading", name="Waiting in the queue").wait_for()
    await world.proxy.close()
    await tab.get_by_text("does not run on this computer any more").wait_for()
    again = LocalProxy(world.port, lambda: {"state": "authenticating"}, dict, CONTROL_SECRET)
    await again.start()
    await tab.get_by_role("heading", name="Logging in").wait_for()
    await again.close()


async def test_a_reload_during_a_cut_shows_the_status_and_comes_back(
    world: World, tab: Page
) -> None:
    """The browser reloads over a connection that it has kept."""
    await world.open()
    address = f"http://localhost:{world.port}/lab"
    await tab.goto(address)
    await tab.locator("#lab").wait_for()
    await world.cut()
    world.state["state"] = "reconnecting"
    await tab.reload()
    await tab.get_by_role("heading", name="Reconnecting").wait_for()
    await world.plug()
    await tab.locator("#lab").wait_for()
    assert tab.url == address
