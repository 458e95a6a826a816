"""What the tests of an open proxy share."""

from __future__ import annotations

from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.connect.proxy.helpers import World
from tests.waiting import until

HTML: dict[str, Any] = {"Accept": "text/html"}
WAITING = "Waiting in the queue"


async def channel(world: World) -> WebSocketClientConnection:
    return await websocket_connect(f"ws://localhost:{world.port}/api/kernels/x/channels")


async def arrived(world: World, text: bytes) -> None:
    """Wait until a request that is being read, and is not complete, has come as far as this."""

    def pending() -> list[bytes]:
        return [getattr(one, "_pending", b"") for one in world.proxy._connections]

    await until(lambda: any(one.endswith(text) for one in pending()))


async def held(world: World, count: int = 1) -> None:
    """Wait until so many requests wait for the pipe."""

    def waiting() -> int:
        return sum(getattr(one, "_phase", "") == "work" for one in world.proxy._connections)

    await until(lambda: waiting() == count)
