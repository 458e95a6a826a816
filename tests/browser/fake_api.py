"""The server extension as the browser sees it, with any data: for pictures of rare states.

Answers in the place of the server, REST and stream alike, so that eight GPUs, ten
thousand jobs or a silent Slurm need no machine that has them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlparse

from tests.browser.fake_runs import some_curves, some_runs
from tests.browser.fake_values import (
    Json,
    a_cluster,
    a_history,
    a_job_view,
    a_session,
    a_storage_report,
    an_overview,
    some_gpus,
    some_jobs,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route, WebSocketRoute


#: How a figure looks that a notebook has drawn, and how a table that it has shown.
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" width="320" height="240" viewBox="0 0 320 240">
<rect width="320" height="240" fill="#fff"/><g fill="none" stroke="#444"><path d="M30 10V210H310"/>
</g><path d="M30 {0}C120 200 200 190 310 {1}" fill="none" stroke="#1f77b4" stroke-width="3"/>
<text x="120" y="30" font-size="16">cell {2}</text></svg>"""
TABLE = "<table border=1><tr><th>lr<th>loss<tr><td>0.1<td>0.5<tr><td>0.01<td>0.2</table>"


def a_figure(name: str) -> Json:
    """An answer with a figure or displayed value of that name."""
    if name.endswith(".html"):
        return {"body": TABLE, "content_type": "text/html"}
    number = int("".join(filter(str.isdigit, name)) or 0) % 100
    body = PICTURE.format(20 + number, 200 - 3 * number, number)
    return {"body": body, "content_type": "image/svg+xml"}


class FakeApi:
    """What each address answers; change the members and call `push` to tell the page."""

    def __init__(self, page: Page) -> None:
        self.reset()
        #: The newest list of watched topics.
        self.watched: list[Json] = []
        self.streams = 0
        self._socket: WebSocketRoute | None = None
        self._log_offsets: dict[tuple[str, str], int] = {}
        page.route(re.compile(r"/jupyter-hpc/(?!static)[^?]*"), self._answer)
        page.route_web_socket(re.compile(r"/jupyter-hpc/stream"), self._open)

    def reset(self) -> None:
        """The usual answers again; a page that is open is not told."""
        self.session: Json = a_session()
        self.gpus: Json = some_gpus(2)
        self.nodes: Json = {"nodes": []}
        self.jobs: Json = some_jobs(3)
        self.storage: Json = a_storage_report()
        self.cluster: Json = a_cluster()
        self.runs: Json = some_runs()
        self.curves: Json = some_curves([])
        #: What would go with the runs that are to be deleted.
        self.holdings: list[Json] = []
        self.logs: dict[str, str] = {}
        self.views: dict[str, Json] = {}
        self.overviews: dict[str, Json] = {}
        #: Topic or address -> {message, hint, status} that is answered instead.
        self.errors: dict[str, Json] = {}
        #: (action, targets) of every POST.
        self.actions: list[tuple[str, str]] = []

    def push(self, *topics: str) -> None:
        """Send these topics to the page, if it watches them."""
        for item in self.watched:
            if not topics or item["topic"] in topics:
                self._send(item)

    def cut(self) -> None:
        """Lose the connection."""
        if self._socket is not None:
            self._socket.close()

    def _open(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        self.streams += 1
        self.watched = []
        self._log_offsets.clear()

        def on_message(message: str | bytes) -> None:
            before = {json.dumps(item) for item in self.watched}
            self.watched = json.loads(message)["watch"]
            for item in self.watched:
                if json.dumps(item) not in before:
                    self._send(item)

        socket.on_message(on_message)

    def _send(self, item: Json) -> None:
        if self._socket is None:
            return
        topic = item["topic"]
        names = {key: item[key] for key in ("topic", "job", "stream") if key in item}
        if topic in self.errors:
            body = {"error": self.errors[topic]}
        elif topic == "log":
            log = (item["job"], item["stream"])
            start = self._log_offsets.get(log, item.get("offset"))
            body = {"data": self._log_piece(*log, start)}
            self._log_offsets[log] = body["data"]["next_offset"]
        else:
            body = {"data": getattr(self, topic)}
        self._socket.send(json.dumps(names | body))

    def _answer(self, route: Route) -> None:
        url = urlparse(route.request.url)
        path = url.path.partition("/jupyter-hpc/")[2]
        error = self.errors.get(path)
        if error is not None:
            route.fulfill(status=error.get("status", 503), json=error)
            return
        parts = path.split("/")
        if path == "runs/delete":
            self.actions.append(("delete", route.request.post_data or ""))
            route.fulfill(json={"message": "Deleted.", "hint": "", "results": []})
        elif parts[0] == "runs" and len(parts) > 1:
            body = {"runs": self.holdings} if parts[1] == "contents" else self.curves
            route.fulfill(json=body)
        elif route.request.method == "POST":
            self.actions.append((parts[2], parts[1]))
            route.fulfill(json={"message": "Done.", "hint": "", "results": []})
        elif path == "gpus/history":
            route.fulfill(json=a_history(self.gpus))
        elif parts[0] == "jobs" and parts[2:] == ["log"]:
            query = parse_qs(url.query)
            offset = int(query["offset"][0]) if "offset" in query else None
            route.fulfill(json=self._log_piece(parts[1], query["stream"][0], offset))
        elif parts[0] == "jobs" and parts[2:] == ["gpus"]:
            route.fulfill(json=a_history(self.gpus) | {"source": "recording"})
        elif parts[0] == "jobs" and parts[2:] == ["overview"]:
            route.fulfill(json=self.overviews.get(parts[1]) or an_overview(parts[1]))
        elif parts[0] == "jobs" and parts[2:3] == ["figures"]:
            route.fulfill(**a_figure(parts[-1]))
        elif parts[0] == "jobs" and len(parts) == 2:
            route.fulfill(json=self.views.get(parts[1]) or a_job_view(parts[1]))
        else:
            route.fulfill(json=getattr(self, path))

    def _log_piece(self, job: str, stream: str, offset: int | None) -> Json:
        text = self.logs.get(job, "") if stream == "stdout" else ""
        start = offset or 0
        return {
            "job": job,
            "stream": stream,
            "path": f"/home/alice/slurm-{job}.out",
            "file": "8:1",
            "size": len(text),
            "offset": start,
            "next_offset": len(text),
            "text": text[start:],
            "eof": True,
            "restarted": False,
            "exists": True,
            "message": None,
        }
