"""GET jobs, jobs/ID, jobs/ID/log, jobs/ID/gpus, jobs/ID/report; POST jobs/ID/ACTION."""

from __future__ import annotations

from http import HTTPStatus

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class JobsHandler(HpcHandler):
    """My jobs, waiting, running and finished."""

    @authenticated
    @authorized
    async def get(self) -> None:
        refresh = self.get_query_argument("refresh", "0") == "1"
        self.reply(await self.services.jobs.read(refresh))


class JobHandler(HpcHandler):
    """One job in detail."""

    @authenticated
    @authorized
    async def get(self, job_id: str) -> None:
        self.reply(await self.services.details.view(job_id))


class JobLogHandler(HpcHandler):
    """A piece of a job's output."""

    @authenticated
    @authorized
    async def get(self, job_id: str) -> None:
        stream, file = self.text("stream") or "stdout", self.text("file")
        offset, limit = self.whole_number("offset", None), self.whole_number("limit", 1 << 20)
        self.reply(await self.services.logs.read(job_id, stream, offset, limit, file))


class JobGpusHandler(HpcHandler):
    """The GPU history that a batch job recorded."""

    @authenticated
    @authorized
    async def get(self, job_id: str) -> None:
        self.reply(await self.services.details.gpus(job_id, self.whole_number("points", 600)))


class JobReportHandler(HpcHandler):
    """A page about a job, a task or a whole sweep."""

    @authenticated
    @authorized
    async def get(self, job_id: str) -> None:
        self.reply(await self.services.reports.make(job_id))


class JobActionHandler(HpcHandler):
    """Cancel, hold, release, requeue. A person did this, so it counts as activity."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self, job_id: str, action: str) -> None:
        result = await self.services.jobs.act(action, job_id)
        self.set_status(HTTPStatus.OK if result.ok else HTTPStatus.CONFLICT)
        self.reply(result)
