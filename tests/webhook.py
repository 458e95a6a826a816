"""A webhook on loopback that writes down what it is told."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """`address` takes posts and answers `code`; `told` holds their JSON."""

    def __init__(self, code: int) -> None:
        told: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(code)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.told = told
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/s3cret-path"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def webhook(code: int = 200) -> Iterator[Webhook]:
    """One that listens until the end of the block."""
    hook = Webhook(code)
    try:
        yield hook
    finally:
        hook.close()
