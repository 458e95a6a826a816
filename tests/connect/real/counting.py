"""The local port of a session, asked as a page asks it, without a pause."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

from tests.connect.real.sessions import Session, record, run


class Port:
    """The session's port, asked as a page asks it."""

    def __init__(self, session: Session) -> None:
        self._port = record(session.laptop, "mini")["port"]
        url = run(session.laptop, "url", "mini").stdout.strip()
        self._headers = {"Authorization": f"token {url.partition('token=')[2]}"}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("localhost", self._port, timeout=20)
        try:
            data = json.dumps(body) if body is not None else None
            connection.request(method, path, data, self._headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status < 300, (answer.status, text)
            return json.loads(text)
        finally:
            connection.close()


class Counter:
    """Counts over the change: one question after the other, with the longest pause between."""

    def __init__(self, port: Port) -> None:
        self.counts: list[float] = []
        self.refused: list[str] = []
        self._port = port
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            try:
                self._port.ask("GET", "/api/status")
                self.counts.append(time.monotonic())
            except (AssertionError, OSError) as error:
                self.refused.append(repr(error))

    def longest_pause(self) -> float:
        self._over.set()
        self._thread.join(30)
        pairs = zip(self.counts, self.counts[1:], strict=False)
        return max(later - earlier for earlier, later in pairs)
