"""GET, POST tensorboard and what is below it: TensorBoard for a folder of logs, in this job."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from jupyter_server.auth.decorator import authorized
from tornado.httputil import HTTPHeaders
from tornado.web import HTTPError, authenticated

from jupyter_hpc.node.handlers.base import HpcHandler


class TensorboardHandler(HpcHandler):
    """Says what there is to show, starts it, or names the one that runs."""

    _track_activity = True

    @authenticated
    @authorized
    async def get(self) -> None:
        self.reply(await self.services.tensorboard.about(self.text("beside") or ""))

    @authenticated
    @authorized
    async def post(self) -> None:
        self.reply(await self.services.tensorboard.start(self.get_json_body()))


class TensorboardPageHandler(HpcHandler):
    """The pages of one TensorBoard, for whoever is logged in to this server."""

    def check_xsrf_cookie(self) -> None:
        """TensorBoard's own pages ask with POST and know nothing of Jupyter's cookie.

        A browser names the origin of such a request: where it is this very server, that is enough.
        """
        origin = urlsplit(self.request.headers.get("Origin", "")).netloc.lower()
        if origin != self.request.host.lower():
            super().check_xsrf_cookie()

    @authenticated
    @authorized
    async def get(self, board_id: str, target: str) -> None:
        await self._answer(board_id, target)

    @authenticated
    @authorized
    async def post(self, board_id: str, target: str) -> None:
        await self._answer(board_id, target)

    async def _answer(self, board_id: str, target: str) -> None:
        query = f"?{self.request.query}" if self.request.query else ""
        raw = self.request.path.partition(f"/tensorboard/{board_id}/")[2]
        page = await self.services.tensorboard.page(
            board_id,
            self.request.method or "GET",
            f"/{raw}{query}",
            self.request.headers,
            self.request.body,
        )
        if page is None:
            raise HTTPError(HTTPStatus.NOT_FOUND, "This TensorBoard does not run any more.")
        self.set_status(page.status)
        self.clear_header("Content-Security-Policy")
        for name, value in page.headers.items():
            self.set_header(name, value)
        # Together with TensorBoard's own rules: no page of another site shows it in a frame.
        self.add_header("Content-Security-Policy", "frame-ancestors 'self'")
        kind = HTTPHeaders(page.headers).get("Content-Type", "application/octet-stream")
        if "image/" in kind.lower() or "xml" in kind.lower():
            # An image out of somebody's event file, opened as a page, runs no script here.
            self.add_header("Content-Security-Policy", "sandbox; default-src 'none'")
        self.finish(page.body, set_content_type=kind)  # else it would be called JSON
