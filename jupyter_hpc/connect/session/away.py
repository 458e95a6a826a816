"""Commands on the node, given up as soon as the way to it is known to be away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import Unreachable

T = TypeVar("T")


async def unless_away(awaited: Awaitable[T], link: Link | None) -> T:
    """The result of something that needs the same way as the link; Unreachable if it is away.

    A command over a connection that has fallen silent would else be waited for until its
    deadline.
    """
    task = asyncio.ensure_future(awaited)
    trouble = asyncio.ensure_future(link.wait_trouble() if link else asyncio.Event().wait())
    try:
        await asyncio.wait((task, trouble), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Unreachable("The connection to the node is interrupted.", "It is being redialled.")
    finally:
        trouble.cancel()
        if not task.done():
            # Not waited for: to end a command takes seconds on such a connection.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.cancel()
