"""A proxy with a real relay and a real tornado server behind it, and a plain HTTP client."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import tornado.httpserver
import tornado.netutil
import tornado.web
import tornado.websocket

from jupyter_hpc.connect.proxy.server import LocalProxy
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, UsageError
from tests.connect.tunnel.helpers import MutePipe, mute_pipe
from tests.relay.harness import PATIENCE, SECRET, RelayProcess, running_relay
from tests.waiting import until

CONTROL_SECRET = "the-secret-of-the-proxy"

#: As a browser asks for a page.
HTML: dict[str, Any] = {"Accept": "text/html,application/xhtml+xml"}


class Lab(tornado.web.RequestHandler):
    """In JupyterLab's place."""

    def get(self) -> None:
        self.set_header("Content-Type", "text/html")
        who = "known" if self.get_cookie("user") else "unknown"
        self.write(f"<title>JupyterLab</title><p id=lab>lab {self.request.path} {who}</p>")


class Status(tornado.web.RequestHandler):
    """As in Jupyter: a request with the token is answered with a cookie."""

    def get(self) -> None:
        if self.request.headers.get("Authorization") == "token t0ken":
            self.set_cookie("user", "me", httponly=True)
        self.write({})


class Hash(tornado.web.RequestHandler):
    """Takes an upload, answers with its digest."""

    async def post(self) -> None:
        self.write(hashlib.sha256(self.request.body).hexdigest())


class Blob(tornado.web.RequestHandler):
    """A download of the size that is asked for."""

    async def get(self, size: str) -> None:
        left = int(size)
        block = bytes(range(256)) * 1024
        while left:
            self.write(block[:left])
            left -= min(left, len(block))
            await self.flush()


class Slow(tornado.web.RequestHandler):
    """An answer that takes its time."""

    async def get(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))  # sleep: a kernel takes its time
        self.write("slow")


class Echo(tornado.websocket.WebSocketHandler):
    def on_message(self, message: str | bytes) -> None:
        self.write_message(message, binary=isinstance(message, bytes))


def application() -> tornado.web.Application:
    return tornado.web.Application(
        [
            (r"/api/status", Status),
            (r"/api/hash", Hash),
            (r"/api/blob/(\d+)", Blob),
            (r"/api/slow/([\d.]+)", Slow),
            (r"/api/kernels/x/channels", Echo),
            (r"/.*", Lab),
        ]
    )


class World:
    """Proxy, link, relay and server; every part can be taken away."""

    def __init__(self, node: RelayProcess) -> None:
        self.node = node
        self.state: dict[str, Any] = {"state": "pending", "cluster": "ulysses", "text": "Waiting."}
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.slow_began, self.slow_may_end = asyncio.Event(), asyncio.Event()
        self.proxy = LocalProxy(0, lambda: self.state, self.actions, CONTROL_SECRET)
        self.link = Link(SECRET, "laptop")
        self.pipe: MutePipe | None = None

    def actions(self) -> dict[str, Any]:
        async def stop(parameters: dict[str, Any]) -> dict[str, Any]:
            self.done.append(("stop", parameters))
            return {"stopped": True}

        async def renew(parameters: dict[str, Any]) -> dict[str, Any]:
            self.done.append(("renew", parameters))
            return {"text": "Job 4712 is asked for."}

        async def refuse(parameters: dict[str, Any]) -> dict[str, Any]:
            raise ConnectError("It cannot be done <now>.", "Wait.")

        async def fail(parameters: dict[str, Any]) -> dict[str, Any]:
            raise KeyError("a secret detail")

        async def slow(parameters: dict[str, Any]) -> dict[str, Any]:
            self.slow_began.set()
            await self.slow_may_end.wait()
            self.done.append(("slow", parameters))
            return {}

        async def enter(parameters: dict[str, Any]) -> dict[str, Any]:
            return {"token": "t0ken"}

        async def misuse(parameters: dict[str, Any]) -> dict[str, Any]:
            raise UsageError("That is no port.", "Give a number.")

        table = {
            "stop": stop,
            "renew": renew,
            "refuse": refuse,
            "misuse": misuse,
            "fail": fail,
            "slow": slow,
            "start": stop,
        }
        return {**table, "enter": enter}

    @property
    def port(self) -> int:
        return self.proxy.port

    async def plug(self) -> None:
        """A (new) pipe carries the link."""
        self.pipe = await mute_pipe(self.node)
        await self.link.attach(self.pipe)

    async def open(self) -> None:
        await self.plug()
        self.proxy.connect(self.link)

    async def cut(self) -> None:
        """The pipe is lost, and known to be lost."""
        assert self.pipe is not None
        self.pipe.abort()
        await until(lambda: self.link.state == "down")

    async def serve(self) -> tornado.httpserver.HTTPServer:
        server = tornado.httpserver.HTTPServer(application(), max_body_size=1 << 30)
        server.add_socket(tornado.netutil.bind_unix_socket(self.node.jupyter))
        return server


@contextlib.asynccontextmanager
async def running_world(*, opened: bool = True) -> AsyncIterator[World]:
    async with running_relay() as node:
        world = World(node)
        await world.proxy.start()
        server = await world.serve()
        try:
            if opened:
                await world.open()
            yield world
        finally:
            server.stop()
            await world.proxy.close()
            await world.link.close()
            await server.close_all_connections()


class Answer:
    """What came back, taken apart."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0] else 0
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        self.text = self.body.decode("utf-8", "replace")


class Client:
    """One connection, byte by byte under the test's control."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=1 << 24
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, target: str, method: str = "GET", body: bytes = b"", **headers: Any) -> None:
        fields = {"Host": f"localhost:{self.port}", **headers}
        if body or method == "POST":
            fields.setdefault("Content-Length", str(len(body)))
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)

    async def answer(self, timeout: float = PATIENCE) -> Answer:
        """One answer with a known length."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), timeout)
        answer = Answer(head)
        length = int(answer.headers.get("content-length", "0"))
        body = await asyncio.wait_for(self.reader.readexactly(length), timeout)
        return Answer(head + body)

    async def rest(self, timeout: float = PATIENCE) -> bytes:
        """Everything until the end."""
        return await asyncio.wait_for(self.reader.read(-1), timeout)


async def fetch(
    port: int, target: str, method: str = "GET", body: bytes = b"", **headers: Any
) -> Answer:
    """One request on a connection of its own."""
    async with Client(port) as client:
        client.send(target, method, body, **headers)
        return await client.answer()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def waiting_proxy() -> AsyncIterator[World]:
    """A proxy that waits; the relay behind it is never started."""
    node = RelayProcess()
    world = World(node)
    await world.proxy.start()
    try:
        yield world
    finally:
        await world.proxy.close()
        node.close()
