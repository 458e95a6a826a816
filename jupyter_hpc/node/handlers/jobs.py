"""GET jobs, jobs/ID, jobs/ID/{overview,log,gpus,report}, figures of a job; POST jobs/ID/ACTION."""

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


class JobOverviewHandler(HpcHandler):
    """What a person looks at first of a job."""

    @authenticated
    @authorized
    async def get(self, job_id: str) -> None:
        points, run = self.whole_number("points", 300), self.text("run")
        self.reply(await self.services.overviews.read(job_id, points, run))


class JobFigureHandler(HpcHandler):
    """A figure or displayed value of a run, as a page that can do nothing."""

    @authenticated
    @authorized
    async def get(self, job_id: str, name: str) -> None:
        figure = await self.services.figures.read(job_id, name)
        # Opened by itself it runs no script and asks nobody: a file of a job is no page of ours.
        rules = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"
        self.set_header("Content-Security-Policy", f"{rules}; frame-ancestors 'self'")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "private, no-cache")
        self.set_header("ETag", figure.etag)
        if self.check_etag_header():
            self.set_status(HTTPStatus.NOT_MODIFIED)
            self.finish()
        else:
            self.finish(figure.content, set_content_type=figure.type)


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
    """A page about a job, a task or a whole sweep, or the same as JSON."""

    @authenticated
    @authorized
    async def get(self, job_id: str) -> None:
        self.reply(await self.services.reports.make(job_id, self.text("kind") or "html"))


class JobActionHandler(HpcHandler):
    """Cancel, hold, release, requeue. A person did this, so it counts as activity."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self, job_id: str, action: str) -> None:
        result = await self.services.jobs.act(action, job_id)
        self.set_status(HTTPStatus.OK if result.ok else HTTPStatus.CONFLICT)
        self.reply(result)
