"""The WebSocket of the panels; see docs/developers/openapi.yaml for its messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_hpc.errors import UsageError
from jupyter_hpc.node.handlers.base import SERVICES_KEY, ErrorAnswers

if TYPE_CHECKING:
    from jupyter_hpc.node.services.stream import Stream

#: A request of a tab is a short list.
MAX_MESSAGE_CHARACTERS = 64 * 1024


class StreamHandler(ErrorAnswers, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One tab. What it is sent is no sign of a busy user, so activity is not tracked."""

    auth_resource = "hpc"
    _stream: Stream | None = None

    @ws_authenticated
    @authorized
    async def get(self, *args: str, **kwargs: str) -> None:
        if self.request.headers.get("Upgrade", "").lower() != "websocket":
            raise UsageError("This address is a WebSocket.", "Open it as one.")
        await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> Awaitable[None] | None:
        self._stream = self.settings[SERVICES_KEY].open_stream(self._deliver)
        waiting: Awaitable[None] | None = super().open(*args, **kwargs)
        return waiting

    async def on_message(self, message: str | bytes) -> None:
        if self._stream is None:
            return
        try:
            request = json.loads(message) if len(message) <= MAX_MESSAGE_CHARACTERS else None
        except (ValueError, RecursionError):
            request = None
        await self._stream.receive(request)

    def on_close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        super().on_close()

    async def _deliver(self, message: bytes) -> None:
        """Wait until the socket has taken the message: a slow tab slows itself only."""
        try:
            await self.write_message(message)
        except WebSocketClosedError as error:
            raise asyncio.CancelledError from error

    def get_compression_options(self) -> dict[str, object] | None:
        """Job lists shrink to a tenth; small messages are not worth the work."""
        return {"compression_level": 1, "mem_level": 5}
