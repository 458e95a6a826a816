"""GET runs/curves: what was run, whether Slurm still knows it or not."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class RunCurvesHandler(HpcHandler):
    """The numbers of some runs as curves."""

    @authenticated
    @authorized
    async def get(self) -> None:
        ids, points = self.text("ids") or "", self.whole_number("points", 300)
        self.reply(await self.services.curves.read(ids, points))
