"""Open tabs are waited for until they know how the session has ended, and no longer."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.connect.proxy import tabs as module
from jupyter_hpc.connect.proxy.tabs import Tabs

STATUS = "/_jupyter-hpc/status"


@pytest.fixture
def tabs(monkeypatch: pytest.MonkeyPatch) -> Tabs:
    monkeypatch.setattr(module, "TELL_SECONDS", 0.3)
    return Tabs()


async def test_nobody_is_waited_for_where_no_tab_is_open(tabs: Tabs) -> None:
    tabs.asked(STATUS, "Ready.")  # a command of this laptop, which names no tab
    assert await asyncio.wait_for(tabs.all_know("Over."), 0.1)


async def test_a_tab_is_waited_for_until_it_has_asked_again(tabs: Tabs) -> None:
    tabs.asked(f"{STATUS}?tab=a", "Ready.")
    tabs.asked(f"{STATUS}?tab=b", "Over.")
    waiting = asyncio.ensure_future(tabs.all_know("Over."))
    await asyncio.sleep(0.1)  # sleep: it goes on waiting
    assert not waiting.done(), "one tab does not know it yet"
    tabs.asked(f"{STATUS}?tab=a", "Over.")
    assert await waiting


async def test_a_tab_that_does_not_ask_holds_nobody_up(
    tabs: Tabs, monkeypatch: pytest.MonkeyPatch
) -> None:
    tabs.asked(f"{STATUS}?tab=a", "Ready.")
    assert not await asyncio.wait_for(tabs.all_know("Over."), 2)
    monkeypatch.setattr(module, "OPEN_SECONDS", -1.0)  # it is closed
    assert await asyncio.wait_for(tabs.all_know("Over."), 0.1)


async def test_names_are_few_and_short(tabs: Tabs) -> None:
    for number in range(1000):
        tabs.asked(f"{STATUS}?tab={number}", "Ready.")
    tabs.asked(f"{STATUS}?tab={'x' * 1000}", "Ready.")
    assert len(tabs._last_texts) <= 64
