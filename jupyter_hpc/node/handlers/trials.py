"""GET, POST, DELETE trial: a notebook for a few epochs, in this session, measured."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class TrialHandler(HpcHandler):
    """The one trial of this server."""

    _track_activity = True

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.trials.look())

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.trials.start(self.get_json_body()))

    @authenticated
    @authorized
    async def delete(self) -> None:
        self.reply(await self.services.trials.end(self.text("id") or ""))
