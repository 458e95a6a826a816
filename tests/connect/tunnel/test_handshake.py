"""The first words on a pipe: what somebody in the relay's place learns, and can do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, PipeRefused
from jupyter_hpc.relay import frames
from tests.connect.tunnel.helpers import Watched
from tests.relay.by_hand import Raw, hello
from tests.relay.harness import SECRET, RelayProcess, SocketPipe, running_relay

NUMBER = bytes(range(frames.NUMBER_SIZE))


class Squatter:
    """Listens where a relay should, and does not know the secret."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.received = b""
        self._answer = answer
        self.address: tuple[str, int] = ("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received += await reader.readexactly(len(frames.MAGIC))
        writer.write(frames.encode_challenge(NUMBER))
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            self.received += await reader.readexactly(frames.HELLO_SIZE - len(frames.MAGIC))
            writer.write(self._answer(self.received))
            self.received += await reader.read()
        writer.close()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Squatter]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()[:2]
        yield self
        server.close()

    async def pipe(self) -> SocketPipe:
        loop = asyncio.get_running_loop()
        _, pipe = await loop.create_connection(SocketPipe, *self.address)
        return pipe


def reply_without_proof(status: int) -> Callable[[bytes], bytes]:
    return lambda received: frames.encode_refusal(status)


def reply_with_another_secret(received: bytes) -> bytes:
    number = received[-frames.PROOF_SIZE - frames.NUMBER_SIZE : -frames.PROOF_SIZE]
    asked = frames.Hello(bytes(16), bytes(16), 1, 0, False, number)
    return frames.Proofs(frames.digest("a guess"), NUMBER).encode_reply(asked, frames.NEW)


def the_laptops_own_proof(received: bytes) -> bytes:
    return frames.encode_refusal(frames.NEW)[: -frames.PROOF_SIZE] + received[-frames.PROOF_SIZE :]


@pytest.mark.parametrize(
    "answer",
    [
        *[
            reply_without_proof(status)
            for status in (frames.NEW, frames.RESUMED, frames.GONE, frames.SUPERSEDED, frames.BUSY)
        ],
        reply_with_another_secret,
        the_laptops_own_proof,
    ],
    ids=["new", "resumed", "gone", "superseded", "busy", "a guess", "a mirror"],
)
async def test_whoever_does_not_know_the_secret_gets_nothing(
    answer: Callable[[bytes], bytes],
) -> None:
    watched = Watched()
    async with Squatter(answer).listening() as squatter:
        with pytest.raises(PipeRefused, match="does not know the secret"):
            await watched.link.attach(await squatter.pipe())
        assert len(squatter.received) == frames.HELLO_SIZE  # no frame, no second HELLO
        assert frames.digest(SECRET) not in squatter.received
        assert not watched.link.taken
        assert watched.link.state == "down"
        assert watched.events == []


@pytest.fixture
async def node() -> AsyncIterator[RelayProcess]:
    async with running_relay() as process:
        yield process


async def test_what_a_squatter_received_is_worth_nothing_at_the_relay(node: RelayProcess) -> None:
    async with Squatter(reply_without_proof(frames.NEW)).listening() as squatter:
        with pytest.raises(PipeRefused):
            await Link(SECRET, "laptop").attach(await squatter.pipe())
        replayed = Raw(node)
        replayed.say(squatter.received)
        replayed.read_challenge()
        answer = replayed.socket.recv(frames.REPLY_SIZE)
        assert answer[4] == frames.REFUSED


async def test_each_pipe_has_a_challenge_of_its_own(node: RelayProcess) -> None:
    first, second = Raw(node), Raw(node)
    for raw in (first, second):
        raw.say(hello(session=raw.socket.fileno().to_bytes(16, "big")))
        assert raw.reply().status == frames.NEW
    assert first.challenge != second.challenge


async def test_the_refusal_of_a_secret_is_said_as_such(node: RelayProcess) -> None:
    with pytest.raises(PipeRefused, match="refused the secret"):
        await Link("another secret of sixteen characters", "laptop").attach(await node.pipe())


async def test_a_relay_of_the_version_before_is_recognised() -> None:
    """It takes the first four bytes for a HELLO of another version."""

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(b"JHR1" + bytes([frames.UNKNOWN_VERSION]) + bytes(27))
        writer.close()

    server = await asyncio.start_server(old, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    _, pipe = await loop.create_connection(SocketPipe, *server.sockets[0].getsockname()[:2])
    with pytest.raises(ConnectError, match="of another version"):
        await Link(SECRET, "laptop").attach(pipe)
    server.close()
