"""POST convert, POST submit: a notebook as a batch job. A person does both."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class ConvertHandler(HpcHandler):
    """What the job of a notebook would be; nothing is written."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.batch.convert(self.get_json_body()))


class SubmitHandler(HpcHandler):
    """The job in the queue."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.batch.submit(self.get_json_body()))
