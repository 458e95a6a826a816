"""The relay's TCP port: TLS, one certificate, both families, and never another number."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jupyter_hpc.connect.job.certificate import RelayIdentity, make_identity
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.tls import open_tls
from jupyter_hpc.errors import PipeRefused
from jupyter_hpc.relay.tls import Tls
from tests.relay.by_hand import ask
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
    SocketPipe,
    echo,
    unix_server,
)
from tests.relay.test_relay import OLD_PYTHON
from tests.waiting import until

NOBODY = 65534
other_user = pytest.mark.skipif(os.geteuid() != 0, reason="only root can play another user")


class TcpRelay(RelayProcess):
    """A relay that was started for the transport "direct"."""

    def __init__(self, python: str = sys.executable) -> None:
        super().__init__(python)
        self.identity = make_identity()
        self.key = self.folder / "relay.pem"
        self.key.touch(0o600)
        self.key.write_bytes(self.identity.pem)

    async def start(self, *more: str) -> None:
        await super().start("--tcp", str(self.key), *more)

    @property
    def port_file(self) -> str:
        return (self.folder / "relay.port").read_text().strip()

    @property
    def log(self) -> str:
        return (self.folder / "relay.log").read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)


async def tcp_pipe(port: int, host: str = "127.0.0.1") -> SocketPipe:
    loop = asyncio.get_running_loop()
    _, pipe = await loop.create_connection(SocketPipe, host, port)
    return pipe


async def tls_pipe(port: int, identity: RelayIdentity, host: str = "127.0.0.1") -> BytePipe:
    pipe = await tcp_pipe(port, host)
    return await open_tls(pipe, identity.certificate, f"port {port} of node", PATIENCE)


@pytest.fixture
async def node() -> AsyncIterator[TcpRelay]:
    relay = TcpRelay()
    try:
        await relay.start()
        async with unix_server(relay.jupyter, echo):
            yield relay
    finally:
        relay.close()


# -- who may connect ------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_session_runs_over_either_family(node: TcpRelay, host: str) -> None:
    link = Link(SECRET, "laptop")
    await link.attach(await tls_pipe(int(node.port_file), node.identity, host))
    data = os.urandom(3_000_000)
    assert bytes((await ask(link, data)).data) == data
    await link.close()


@pytest.mark.skipif(not OLD_PYTHON.exists(), reason="there is no Python 3.9 here")
async def test_the_oldest_python_speaks_tls() -> None:
    relay = TcpRelay(str(OLD_PYTHON))
    try:
        await relay.start()
        link = Link(SECRET, "laptop")
        await link.attach(await tls_pipe(int(relay.port_file), relay.identity))
        async with unix_server(relay.jupyter, echo):
            assert bytes((await ask(link, b"old")).data) == b"old"
        await link.close()
    finally:
        relay.close()


async def test_a_session_goes_on_over_the_next_connection(node: TcpRelay) -> None:
    link = Link(SECRET, "laptop")
    pipe = await tcp_pipe(int(node.port_file))
    await link.attach(await open_tls(pipe, node.identity.certificate, "node", PATIENCE))
    end = Collector()
    end.stream = link.open("", end)
    end.stream.send(b"before ")
    await end.wait(lambda: len(end.data) == 7)
    pipe.abort()
    await asyncio.wait_for(link.wait_trouble(), PATIENCE)
    end.stream.send(b"after")
    await link.attach(await tls_pipe(int(node.port_file), node.identity))
    await end.wait(lambda: bytes(end.data) == b"before after")
    await link.close()


async def test_there_is_no_port_unless_it_is_asked_for() -> None:
    relay = RelayProcess()
    try:
        await relay.start()
        assert not (relay.folder / "relay.port").exists()
    finally:
        relay.close()


async def test_who_has_the_certificate_alone_is_refused(node: TcpRelay) -> None:
    """It is public: the relay shows it to everybody."""
    with pytest.raises(PipeRefused, match="refused the secret"):
        pipe = await tls_pipe(int(node.port_file), node.identity)
        await Link("another secret of enough length", "x").attach(pipe)


@pytest.mark.parametrize("noise", [b"A", b"JHR2", b"GET / HTTP/1.0\r\n\r\n", os.urandom(1 << 16)])
async def test_who_speaks_no_tls_learns_nothing(node: TcpRelay, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(node.port_file))) as raw:
        raw.settimeout(PATIENCE)
        received = b""
        with contextlib.suppress(ConnectionError):
            raw.sendall(noise)
            raw.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: raw.recv(4096), b""))
    assert len(received) < 16 and b"JHR" not in received, "more than an alert of TLS"
    link = Link(SECRET, "laptop")
    await link.attach(await tls_pipe(int(node.port_file), node.identity))
    await link.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_tls_is_refused(node: TcpRelay) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", int(node.port_file))) as raw:
        raw.settimeout(PATIENCE)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(context.wrap_socket, raw)


# -- somebody in the relay's place -----------------------------------------------------------


class Between:
    """Passes bytes on between a laptop and the relay, and keeps all of them."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.seen = b""
        self._to = port
        self._context = context

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", ssl=self._context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Towards the relay it can be anybody who speaks TLS: that end asks for no certificate.
        anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
        there, onward = await asyncio.open_connection(
            "127.0.0.1", self._to, ssl=anything if self._context else None
        )
        with contextlib.suppress(OSError, ssl.SSLError):
            await asyncio.gather(self._pass(reader, onward), self._pass(there, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            self.seen += data
            sink.write(data)
        sink.close()


WORDS = b"a token that nobody else may read"


async def test_who_passes_the_records_on_cannot_read_them(node: TcpRelay) -> None:
    between = Between(int(node.port_file))
    async with between as port:
        link = Link(SECRET, "laptop")
        await link.attach(await tls_pipe(port, node.identity))
        assert bytes((await ask(link, WORDS)).data) == WORDS
        await link.close()
    assert len(between.seen) > len(WORDS) and WORDS not in between.seen
    assert b"JHR" not in between.seen


async def test_who_ends_tls_in_the_middle_is_found_out(node: TcpRelay, tmp_path: Path) -> None:
    """With a certificate of the same name, which is all that can be copied."""
    key = tmp_path / "theirs.pem"
    key.write_bytes(make_identity().pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key)
    between = Between(int(node.port_file), context)
    async with between as port:
        with pytest.raises(PipeRefused, match=f"port {port} of node is not the relay") as refused:
            await tls_pipe(port, node.identity)
    assert between.seen == b"" and "--via" in refused.value.hint


async def test_who_speaks_no_tls_in_the_relays_place_is_found_out(node: TcpRelay) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(PipeRefused, match="is not the relay"):
        await tls_pipe(port, node.identity)
    server.close()


async def test_who_only_listens_is_given_up(node: TcpRelay) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        pipe = await tcp_pipe(listener.getsockname()[1])
        with pytest.raises(PipeRefused, match=r"did not say within 0\.2 s"):
            await open_tls(pipe, node.identity.certificate, "there", 0.2)
        assert pipe.closed


async def test_who_hangs_up_is_told(node: TcpRelay) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(PipeRefused, match="is not the relay"):
        await tls_pipe(port, node.identity)
    server.close()


@pytest.mark.parametrize("certificate", ["", "%%%", "QUJD"])
async def test_a_certificate_that_is_none_is_told(node: TcpRelay, certificate: str) -> None:
    pipe = await tcp_pipe(int(node.port_file))
    with pytest.raises(PipeRefused):
        await open_tls(pipe, certificate, "node", PATIENCE)
    assert pipe.closed


async def test_records_that_were_changed_end_the_pipe(node: TcpRelay) -> None:
    pipe = await tcp_pipe(int(node.port_file))
    link = Link(SECRET, "laptop")
    await link.attach(await open_tls(pipe, node.identity.certificate, "node", PATIENCE))
    pipe.receiver(b"\x17\x03\x03\x00\x20" + os.urandom(32))
    await asyncio.wait_for(link.wait_trouble(), PATIENCE)
    assert link.state == "down" and pipe.closed
    await link.attach(await tls_pipe(int(node.port_file), node.identity))
    assert bytes((await ask(link, b"again")).data) == b"again"
    await link.close()


# -- whose the port is -----------------------------------------------------------------------

_TAKE = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if "reuseport" in sys.argv: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
try:
    s.bind((sys.argv[1], int(sys.argv[2]))); s.listen()
    print("taken", flush=True)
    sys.stdin.read()
except OSError as error:
    print(error.strerror, flush=True)
"""


@contextlib.contextmanager
def somebody_takes(address: str, port: int, *how: str) -> Iterator[str]:
    """Another user of the node tries for the port; yields how that went."""
    with subprocess.Popen(
        [sys.executable, "-c", _TAKE, address, str(port), *how], stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@other_user
@pytest.mark.parametrize("how", [(), ("reuseport",)])
@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "::", "::1"])
async def test_nobody_has_another_half_of_the_port(
    node: TcpRelay, address: str, how: tuple[str, ...]
) -> None:
    with somebody_takes(address, int(node.port_file), *how) as result:
        assert result == "Address already in use"


async def test_a_relay_that_was_killed_comes_back_on_its_port(node: TcpRelay) -> None:
    port = node.port_file
    link = Link(SECRET, "laptop")
    await link.attach(await tls_pipe(int(port), node.identity))  # is left behind by the kill
    node.kill()
    await node.start()
    assert node.port_file == port
    await link.attach(await tls_pipe(int(port), node.identity))
    await link.close()


@other_user
async def test_a_port_that_was_taken_is_told_and_tried_for_again(node: TcpRelay) -> None:
    port = node.port_file
    node.kill()
    with somebody_takes("::1", int(port)) as result:
        assert result == "taken"
        await node.start()
        assert f"TCP port {port} cannot be had" in node.log
        assert node.port_file == port, "laptops know no other"
        theirs = await tcp_pipe(int(port), "::1")
        with pytest.raises(PipeRefused):
            await open_tls(theirs, node.identity.certificate, "node", 0.2)
        link = Link(SECRET, "laptop")
        await link.attach(await node.pipe())  # the other pipes are there
        await link.close()
    await until(lambda: f"TCP port {port} is ours again" in node.log)
    link = Link(SECRET, "laptop")
    await link.attach(await tls_pipe(int(port), node.identity))
    await link.close()


async def test_a_key_that_others_can_read_opens_no_port() -> None:
    relay = TcpRelay()
    try:
        relay.key.chmod(0o640)
        await relay.start()
        assert "is not a private file" in relay.port_file and "no TCP port" in relay.log
    finally:
        relay.close()


async def test_a_python_without_tls_says_so() -> None:
    relay = TcpRelay()
    text = relay.script.read_text()
    assert "    import ssl\n" in text
    relay.script.write_text(text.replace("    import ssl\n", "    raise ImportError\n"))
    try:
        await relay.start()
        assert relay.port_file == "this Python was built without TLS 1.2"
        link = Link(SECRET, "laptop")
        await link.attach(await relay.pipe())
        await link.close()
    finally:
        relay.close()


async def test_a_certificate_that_only_has_the_right_issuer_is_not_enough(
    node: TcpRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should OpenSSL ever take another one for trusted, the exact bytes still decide."""
    monkeypatch.setattr(Tls, "peer_certificate", lambda self: b"another")
    with pytest.raises(PipeRefused, match="is not the relay"):
        await tls_pipe(int(node.port_file), node.identity)
