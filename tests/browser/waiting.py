"""Waiting for something outside of the page while the browser goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def wait_until(page: Page, condition: Callable[[], bool], seconds: float = 45) -> None:
    """Let the browser work until `condition` holds; AssertionError if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        page.wait_for_timeout(100)
