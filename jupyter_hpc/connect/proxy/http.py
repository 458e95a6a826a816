"""As much HTTP as the proxy needs: read a request's head, judge it, write an answer.

Bytes that go to Jupyter are never changed; this only looks at heads and writes answers of
our own, each with `Connection: close`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

#: tornado accepts as much; JupyterLab's cookies and URLs stay far below.
MAX_HEAD_BYTES = 1 << 16

#: Our own pages live here; Jupyter has nothing under this name.
OWN_PREFIX = "/_jupyter-hpc/"

#: The header with the secret that an action of ours needs.
SECRET_HEADER = "X-Jupyter-Hpc-Secret"  # noqa: S105 - its name, not its value

#: The only names under which this port is ours. With any other the browser was led here
#: by a foreign site (DNS rebinding).
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")

#: Any word of RFC 9110: a page may ask for a method of its own making, also in small letters.
_METHOD = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _METHOD + rb") (/[^ \r\n\0]*) HTTP/1\.[01]\r\n")
_UNFINISHED_LINE = re.compile(_METHOD + rb"( (/[^ \r\n\0]*( [HTP/1.0]{0,8}\r?)?)?)?")

#: Of each word of an unfinished line: more than any known method, and than the end of the line.
_KEPT_BYTES = 32

#: What JupyterLab asks for every ten seconds, in each tab.
_POLLED = re.compile(r"/api/(kernels|sessions|terminals)/?")

#: Parts of Jupyter, and of our own extension in it (node/handlers/routes.py), that only programs
#: ask for: from the first letter of the path on, as "/lab/tree/files/a.ipynb" is a page.
_API = re.compile(r"/(api|static|files|terminals/websocket|lab/api|jupyter-hpc)(/|$)")


@dataclass(frozen=True)
class Head:
    """A request as far as its empty line; header names in lower case, the first one counts."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def own(self) -> bool:
        """Whether it is for the proxy itself."""
        return self.path.startswith(OWN_PREFIX)

    @property
    def upgrade(self) -> bool:
        return "upgrade" in self.headers

    @property
    def poll(self) -> bool:
        """Whether it is one of the questions that JupyterLab repeats for ever.

        JupyterLab takes a 503 for a lost server and covers its page with a dialog.
        """
        scripted = self.headers.get("sec-fetch-mode") in ("cors", "same-origin")
        return self.method == "GET" and scripted and _POLLED.fullmatch(self.path) is not None

    @property
    def page_load(self) -> bool:
        """Whether a person waits for a page, as opposed to a program for data."""
        if self.method not in ("GET", "HEAD") or self.upgrade or _API.match(self.path):
            return False
        if self.headers.get("x-requested-with"):
            return False
        mode = self.headers.get("sec-fetch-mode")
        if mode is not None:
            return mode == "navigate"
        accept = self.headers.get("accept", "*/*")
        return "text/html" in accept or accept.strip() == "*/*"


def parse_head(data: bytes) -> Head | None:
    """The head at the start of `data`, even if its end has not come; None if it is none."""
    line = _REQUEST_LINE.match(data)
    if line is None:
        return None
    end = data.find(b"\r\n\r\n")
    rest = data[line.end() : end if end >= 0 else len(data)]
    headers: dict[str, str] = {}
    for raw in rest.split(b"\r\n"):
        name, colon, value = raw.partition(b":")
        if colon:
            headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip())
    return Head(line[1].decode("ascii"), line[2].decode("latin-1"), headers)


def first_line(data: bytes) -> Literal["request", "unfinished", "other"]:
    """What `data` begins with: an HTTP/1 request's line as browsers write it, a line that may
    still become one, or anything else."""
    if b"\n" in data:
        return "request" if _REQUEST_LINE.match(data) else "other"
    return "unfinished" if _UNFINISHED_LINE.fullmatch(data) else "other"


def shortened_line(line: bytes) -> bytes:
    """An unfinished line without the middle of its words, so that it can be of any length.

    Together with what follows, `first_line` says the same of it, and `parse_head` finds the same
    method if it is one that is known, and the same headers.
    """
    method, space, target = line.partition(b" ")
    if len(target) > 2 * _KEPT_BYTES:
        target = target[:_KEPT_BYTES] + target[-_KEPT_BYTES:]
    return method[:_KEPT_BYTES] + space + target


def host_allowed(head: Head, port: int) -> bool:
    """Whether the request was made to one of our names with our port."""
    host = head.headers.get("host", "").lower()
    allowed = {f"{name}:{port}" for name in LOCAL_NAMES}
    return host in allowed or (port == 80 and host in LOCAL_NAMES)


def origin_allowed(head: Head, port: int) -> bool:
    """Whether the request does not come from the page of another origin."""
    origin = head.headers.get("origin")
    if origin is not None and not _is_ours(origin, (port,)):
        return False
    return head.headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def page_allowed(head: Head, ports: Collection[int]) -> bool:
    """Whether a request to a service is not that of a page of another site.

    `ports` are those of the pages that may ask. A link from anywhere may lead to the service,
    and pages of this computer may show what it serves; a page elsewhere may neither send
    anything nor load a part of it.
    """
    site = head.headers.get("sec-fetch-site", "none")
    origin = head.headers.get("origin")
    if site == "same-origin":  # no page can say so itself; its origin may be hidden ("null")
        return True
    if origin is not None:
        return _is_ours(origin, ports)
    loads_page = head.method in ("GET", "HEAD") and head.headers.get("sec-fetch-mode") == "navigate"
    return site != "cross-site" or loads_page


def _is_ours(origin: str, ports: Collection[int]) -> bool:
    """Whether an origin is one of our names with one of these ports; 80 goes without saying."""
    allowed = {f"http://{name}:{port}" for name in LOCAL_NAMES for port in ports}
    if 80 in ports:
        allowed.update(f"http://{name}" for name in LOCAL_NAMES)
    return origin.lower() in allowed


def answer(
    status: int,
    body: bytes,
    content_type: str,
    headers: Mapping[str, str] | None = None,
    *,
    head_only: bool = False,
) -> bytes:
    """A whole answer of ours; nothing of it may be stored, framed or guessed at."""
    fields = {
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Connection": "close",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        **(headers or {}),
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (b"" if head_only else body)


def json_answer(
    status: int, value: object, headers: Mapping[str, str] | None = None, *, head_only: bool = False
) -> bytes:
    # "<" as an escape: even a reader that takes it for a page finds no element in it.
    body = json.dumps(value).replace("<", "\\u003c").encode("utf-8") + b"\n"
    return answer(status, body, "application/json", headers, head_only=head_only)


def refusal(status: int, message: str) -> bytes:
    """A short answer for programs; never shows what was sent to us."""
    return json_answer(status, {"message": message})
