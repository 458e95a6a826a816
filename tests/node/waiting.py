"""Waiting in the event loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], patience: float = 60.0) -> None:
    """Return when `condition` gives something true; TimeoutError if it never does."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), patience)
