"""POST leave, POST restore, GET restored: what is open moves from one server to the next."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class LeaveHandler(HpcHandler):
    """The session moves on: open tabs save, and the answer is what is open."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.workbench.leave(self.get_json_body()))


class RestoreHandler(HpcHandler):
    """Open what was open in the server before."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.workbench.restore(self.get_json_body()))


class RestoredHandler(HpcHandler):
    """What became of the variables of the kernels in the server before."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(self.services.workbench.restored())
