"""GET session: the job that this server runs in, its time and its memory."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class SessionHandler(HpcHandler):
    """The job that this server runs in."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.session.read())
