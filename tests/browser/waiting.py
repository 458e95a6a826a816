"""Waiting for something outside of the page while the browser goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.waiting import WAIT_SECONDS, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page


def wait_until(page: Page, condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """`eventually`, while the browser goes on."""
    eventually(condition, seconds=seconds, pause=lambda pause: page.wait_for_timeout(pause * 1000))
