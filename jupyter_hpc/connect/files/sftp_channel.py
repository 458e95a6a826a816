"""The far end of a transfer over SFTP: the host's streams, and a thread that speaks for it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import AsyncIterator

from jupyter_hpc.connect.files.channel import Starter, Streams
from jupyter_hpc.connect.files.frames import Broken, Wire
from jupyter_hpc.connect.files.sftp import SftpClient
from jupyter_hpc.connect.files.sftp_agent import SftpAgent
from jupyter_hpc.connect.ssh.runner import SshRunner
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.runner import record_command
from jupyter_hpc.waiting import within

#: A slow file system may have the server wait for its home folder.
_START_SECONDS = 30.0

#: A sum of a terabyte on a network file system.
_MAX_SUM_SECONDS = 3600.0

_SUM = 'head -c "$2" -- "$1" | sha256sum'


class _Sums:
    """SHA-256 by a command of the host, where it runs one."""

    def __init__(self, starter: Starter) -> None:
        self._runner = SshRunner(starter)
        self._loop = asyncio.get_running_loop()
        self._works = True

    def __call__(self, path: str, size: int) -> str | None:
        if not self._works:
            return None
        words = ["sh", "-c", _SUM, "sh", path, str(size)]
        asked = self._runner.run(words, timeout=_MAX_SUM_SECONDS)
        try:
            done = asyncio.run_coroutine_threadsafe(asked, self._loop).result(_MAX_SUM_SECONDS)
        except (HpcError, RuntimeError, TimeoutError):
            self._works = False
            return None
        found = re.fullmatch(r"\\?([0-9a-f]{64})  -\s*", done.stdout)
        self._works = found is not None
        return found[1] if found else None


@contextlib.asynccontextmanager
async def open_sftp(starter: Starter) -> AsyncIterator[Wire]:
    """As channel.open_agent, for a host where nothing of ours can run. Raises ConnectError."""
    record_command(["sftp-server"], starter.host)
    process = await starter.start_sftp()
    streams = Streams(process)
    here, there = socket.socketpair()
    speaker: threading.Thread | None = None
    try:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        speaker = threading.Thread(
            target=_speak,
            args=(streams, there, _Sums(starter), asyncio.get_running_loop(), begun),
            daemon=True,
        )
        speaker.start()
        try:
            await within(asyncio.shield(begun), _START_SECONDS)
        except (Broken, OSError, TimeoutError, asyncio.TimeoutError) as error:
            raise ConnectError(
                f"{starter.host} offers no SFTP either: {str(error) or 'no answer'}.",
                "Ask the site how files are copied there.",
            ) from error
        with here.makefile("rb") as reader, here.makefile("wb") as writer:
            yield Wire(reader, writer)
    finally:
        streams.end()
        process.close()
        with contextlib.suppress(OSError):
            here.shutdown(socket.SHUT_RDWR)
        here.close()
        if speaker is not None:
            await asyncio.to_thread(speaker.join, 10.0)


def _speak(
    streams: Streams,
    end: socket.socket,
    sums: _Sums,
    loop: asyncio.AbstractEventLoop,
    begun: asyncio.Future[None],
) -> None:
    """Answer for the host, on a thread of its own, until either side is gone."""
    with end, end.makefile("rb") as reader, end.makefile("wb") as writer:
        try:
            agent = SftpAgent(Wire(reader, writer), SftpClient(streams, streams), sums)
        except (Broken, OSError) as error:
            loop.call_soon_threadsafe(_settle, begun, error)
            return
        loop.call_soon_threadsafe(_settle, begun, None)
        with contextlib.suppress(Broken, OSError, ValueError):
            agent.serve()


def _settle(begun: asyncio.Future[None], error: Exception | None) -> None:
    if begun.done():
        return
    if error is None:
        begun.set_result(None)
    else:
        begun.set_exception(error)
