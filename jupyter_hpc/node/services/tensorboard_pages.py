"""TensorBoard's pages, read from its socket, and the folders of logs that it could show."""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.errors import CommandFailed

_ANSWER_SECONDS = 60.0

#: What of a request TensorBoard needs to know, and of its answer the browser.
_UP = ("Accept", "Accept-Encoding", "Content-Type", "If-None-Match")
_DOWN = (
    *("Content-Type", "Content-Encoding", "Content-Disposition", "Content-Security-Policy"),
    *("Cache-Control", "ETag", "Expires", "Location", "X-Content-Type-Options"),
)

#: A walk through a project ends after so much of it.
_MAX_DEPTH = 4
_MAX_FOLDERS = 3000
_MAX_FOUND = 20
_WALK_SECONDS = 4.0

#: In the name of every file of events.
_EVENTS = "tfevents"


@dataclass(frozen=True)
class Page:
    """One answer of TensorBoard."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_ANSWER_SECONDS)
        self.sock.connect(self._path)


def read_page(path: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Page:
    """What TensorBoard on the socket `path` answers; CommandFailed if it does not."""
    connection = _SocketConnection(path)
    sent = {name: headers[name] for name in _UP if name in headers}
    try:
        connection.request(method, target, body or None, sent)
        answer = connection.getresponse()
        kept = {name: value for name in _DOWN if (value := answer.getheader(name)) is not None}
        return Page(answer.status, kept, answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(
            f"TensorBoard does not answer: {error!r}.", "Open it again from the launcher."
        ) from error
    finally:
        connection.close()


def log_folders(root: str, beside: str) -> list[str]:
    """Folders with TensorBoard's logs beside a notebook, as paths below `root`.

    Those directly beside it, not those further down: TensorBoard shows all that is below.
    """
    start = os.path.normpath(os.path.join(root, os.path.dirname(beside)))
    if os.path.commonpath([start, os.path.normpath(root)]) != os.path.normpath(root):
        return []
    ends = time.monotonic() + _WALK_SECONDS
    found: list[str] = []
    for looked, (folder, folders, files) in enumerate(os.walk(start)):
        if looked > _MAX_FOLDERS or time.monotonic() > ends:
            break
        parts = [] if folder == start else os.path.relpath(folder, start).split(os.sep)
        top = os.path.relpath(os.path.join(start, *parts[:1]), root)
        if top not in found and any(_EVENTS in name for name in files):
            found.append(top)
        known = bool(parts) and top in found
        deep = known or len(parts) >= _MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if name[0] != ".")
    return found[:_MAX_FOUND]
