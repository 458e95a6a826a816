"""GET gpus, GET gpus/history, GET nodes."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class GpusHandler(HpcHandler):
    """The newest sample of the GPUs of this job."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.gpus.read())


class GpuHistoryHandler(HpcHandler):
    """Load, memory, power and temperature over time."""

    @authenticated
    @authorized
    async def get(self) -> None:
        seconds, points = self.number("seconds", 600.0), self.whole_number("points", 600)
        self.reply(await self.services.gpus.history(seconds, points))


class NodesHandler(HpcHandler):
    """The GPUs of the further nodes of this job."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.nodes.read())
