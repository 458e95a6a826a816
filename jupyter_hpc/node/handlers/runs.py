"""GET runs, runs/curves, runs/contents, runs/ID/again, runs/ID/results.zip; POST runs/delete."""

from __future__ import annotations

from http import HTTPStatus

from jupyter_server.auth.decorator import authorized
from tornado.iostream import StreamClosedError
from tornado.web import authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class RunsHandler(HpcHandler):
    """Every run that was ever submitted."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.runs.read())


class RunContentsHandler(HpcHandler):
    """What would go if runs were deleted."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.runs.contents(self.text("ids") or ""))


class RunAgainHandler(HpcHandler):
    """What the dialog begins with to run one again."""

    @authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        self.reply(await self.services.runs.again(run_id))


class RunsDeleteHandler(HpcHandler):
    """Deletes what was named. A person did this, so it counts as activity."""

    _track_activity = True

    @authenticated
    @authorized
    async def post(self) -> None:
        result = await self.services.runs.delete(self.get_json_body())
        self.set_status(HTTPStatus.OK if result.ok else HTTPStatus.CONFLICT)
        self.reply(result)


class RunArchiveHandler(HpcHandler):
    """The results of a run as one file, which a browser keeps."""

    @authenticated
    @authorized
    async def get(self, run_id: str) -> None:
        name, pieces = await self.services.runs.archive(run_id)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Disposition", f'attachment; filename="{ascii_name(name)}"')
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Type", "application/zip")
        try:
            async for piece in pieces:
                self.write(piece)
                await self.flush()
        except StreamClosedError:
            return  # the reader has gone
        except Exception:
            # What was sent is no archive; an end like any other would say that it is one.
            self.detach().close()
            raise
        await self.finish(set_content_type="application/zip")


class RunCurvesHandler(HpcHandler):
    """The numbers of some runs as curves."""

    @authenticated
    @authorized
    async def get(self) -> None:
        ids, points = self.text("ids") or "", self.whole_number("points", 300)
        self.reply(await self.services.curves.read(ids, points))


def ascii_name(name: str) -> str:
    """A file's name that every browser understands in a header."""
    plain = name.encode("ascii", "replace").decode()
    return "".join("_" if char in '?"\\/' or not char.isprintable() else char for char in plain)
