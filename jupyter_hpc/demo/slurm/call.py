"""One command that runs on a host and waits for the controller's answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_hpc.demo.client import FRAME

#: Blocks of standard input that may be on their way at once.
STDIN_BLOCKS = 4


@dataclass
class Call:
    """The controller's end of a running command; see client.py for the frames."""

    program: str
    arguments: list[str]
    environment: dict[str, str]
    work_dir: str
    pid: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    signals: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    _stdin: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    _codes: asyncio.Queue[int] = field(default_factory=asyncio.Queue)

    @property
    def host(self) -> str:
        return self.environment.get("JUPYTER_HPC_DEMO_HOST", "")

    def frame(self, kind: bytes, body: bytes = b"") -> None:
        if not self.gone.is_set():
            self.writer.write(FRAME.pack(kind, len(body)) + body)

    def out(self, text: str) -> None:
        """Print on the command's stdout."""
        self.frame(b"o", text.encode("utf-8", "surrogateescape"))

    def err(self, *lines: str) -> None:
        """Print lines on the command's stderr."""
        text = "".join(f"{line}\n" for line in lines)
        self.frame(b"e", text.encode("utf-8", "surrogateescape"))

    def say(self, text: str) -> None:
        """One line on stderr with the program's name, as Slurm's log functions write it."""
        self.err(f"{self.program}: {text}")

    async def flush(self) -> None:
        """Wait while the command is slower than we are."""
        with contextlib.suppress(ConnectionError, OSError):
            await self.writer.drain()

    async def finish(self, code: int) -> None:
        """Name the exit code and let the command go."""
        self.frame(b"x", str(code).encode())
        await self.flush()
        self.writer.close()
        with contextlib.suppress(ConnectionError, OSError):
            await self.writer.wait_closed()

    def want_stdin(self) -> None:
        """Ask for standard input; then `stdin_block` returns it piece by piece."""
        for _ in range(STDIN_BLOCKS):
            self.frame(b"r")

    async def stdin_block(self) -> bytes:
        """The next piece of standard input; empty at its end. Asks for one more."""
        block = await self._stdin.get()
        self.frame(b"r")
        return block

    async def whole_stdin(self) -> bytes:
        self.want_stdin()
        pieces = []
        while piece := await self.stdin_block():
            pieces.append(piece)
        return b"".join(pieces)

    async def run_there(self, argv: Sequence[str], added: Mapping[str, str]) -> int:
        """Have the command run `argv` in its own place; the exit code."""
        words = [str(len(argv)), *argv, *(f"{name}={value}" for name, value in added.items())]
        self.frame(b"c", b"\0".join(os.fsencode(word) for word in words))
        return await self._codes.get()

    async def listen(self) -> None:
        """Take frames until the command is gone."""
        try:
            while True:
                kind, size = FRAME.unpack(await self.reader.readexactly(FRAME.size))
                body = await self.reader.readexactly(size)
                if kind == b"i":
                    self._stdin.put_nowait(body)
                elif kind == b"g":
                    self.signals.put_nowait(body[0])
                elif kind == b"d":
                    self._codes.put_nowait(int(body))
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            self.gone.set()
            self._stdin.put_nowait(b"")
            self._codes.put_nowait(1)
