"""A kernel of a session, used through the local port as a browser uses it."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import record, run

T = TypeVar("T")


class Kernel:
    """A fresh kernel of a session that is ready; `run` gives what a cell prints."""

    def __init__(self, laptop: Laptop, name: str = "mini") -> None:
        url = run(laptop, "url", name).stdout.strip()
        self.headers = {"Authorization": f"token {url.partition('token=')[2]}"}
        self.base = f"localhost:{record(laptop, name)['port']}"

    def run(self, code: str, timeout: float = 60) -> str:
        """What `code` prints in a kernel of its own; AssertionError if it raises."""
        return _wait_for(asyncio.wait_for(self._run(code), timeout))

    def get(self, path: str) -> Any:
        """The answer of the Jupyter server to a question for JSON."""
        return _wait_for(asyncio.wait_for(self._ask("GET", path), 60))

    def start(self, notebook: str, code: str) -> None:
        """Let a kernel of that notebook, which need not exist, begin with `code`.

        Code that ends its kernel at once may end it before the kernel has said that it began.
        """
        _wait_for(asyncio.wait_for(self._start(notebook, code), 60))

    async def _start(self, notebook: str, code: str) -> None:
        wanted = {"path": notebook, "name": notebook, "type": "notebook"}
        body = json.dumps({**wanted, "kernel": {"name": "python3"}})
        session = await self._ask("POST", "/api/sessions", body)
        channels = await self._execute(session["kernel"]["id"], code)
        while True:
            said = await channels[0].read_message()
            assert said is not None, "the kernel's connection ended"
            message = json.loads(said)
            state = message["content"].get("execution_state")
            if message["msg_type"] == "execute_input" or state in ("restarting", "dead"):
                channels[0].close()
                return

    async def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        request = HTTPRequest(f"http://{self.base}{path}", method, self.headers, body)
        answer = await AsyncHTTPClient().fetch(request)
        return json.loads(answer.body) if answer.body else None

    def run_in(self, kernel: str, code: str, timeout: float = 60) -> str:
        """The same in a kernel that runs."""
        return _wait_for(asyncio.wait_for(self._run_in(kernel, code), timeout))

    async def _run(self, code: str) -> str:
        kernel = (await self._ask("POST", "/api/kernels", '{"name": "python3"}'))["id"]
        try:
            return await self._run_in(kernel, code)
        finally:
            await self._ask("DELETE", f"/api/kernels/{kernel}")

    async def _run_in(self, kernel: str, code: str) -> str:
        channels, request = await self._execute(kernel, code)
        try:
            return await _printed(channels, request)
        finally:
            channels.close()

    async def _execute(self, kernel: str, code: str) -> tuple[Any, str]:
        """The channels of a kernel that has been asked to run `code`, and the request's id."""
        address = f"ws://{self.base}/api/kernels/{kernel}/channels"
        channels = await websocket_connect(HTTPRequest(address, headers=self.headers))
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": "s",
                  "username": "", "version": "5.3"}  # fmt: skip
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content,
                   "channel": "shell", "buffers": []}  # fmt: skip
        await channels.write_message(json.dumps(message))
        return channels, header["msg_id"]


def _wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of it, also beside the event loop of a browser's tests."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def _printed(channels: Any, request: str) -> str:
    printed = ""
    while True:
        said = await channels.read_message()
        assert said is not None, "the kernel's connection ended"
        message = json.loads(said)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        assert kind != "error", "\n".join(content.get("traceback", []))
        if kind == "stream":
            printed += content["text"]
        if kind == "status" and content["execution_state"] == "idle":
            return printed
