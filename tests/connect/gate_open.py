"""What the tests of an open gate share."""

from __future__ import annotations

from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.connect.gate_helpers import World

HTML: dict[str, Any] = {"Accept": "text/html"}
WAITING = "Waiting in the queue"


async def channel(world: World) -> WebSocketClientConnection:
    return await websocket_connect(f"ws://localhost:{world.port}/api/kernels/x/channels")
