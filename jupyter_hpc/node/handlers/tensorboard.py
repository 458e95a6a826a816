"""POST tensorboard: TensorBoard for a folder of logs, in this job."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class TensorboardHandler(HpcHandler):
    """Starts it, or names the one that runs."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.tensorboard.start(self.get_json_body()))
