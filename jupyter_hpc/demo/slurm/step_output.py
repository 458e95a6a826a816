"""What a step's tasks read and write, carried between them and the srun that started them.

The tasks talk to this process, never to srun itself: when srun dies, the step
goes on and its output is dropped, as with slurmstepd.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping

from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.jobs import Step
from jupyter_hpc.demo.slurm.patterns import expand
from jupyter_hpc.demo.slurm.steps import TaskFiles
from jupyter_hpc.demo.ssh_session import make_pipe
from jupyter_hpc.waiting import finish

BLOCK_BYTES = 1 << 18


class StepFiles:
    """The files of all tasks of one step, and the work of carrying their bytes."""

    def __init__(self, call: Call, step: Step, options: Mapping[str, str], work_dir: str) -> None:
        self._call = call
        self._step = step
        self._work_dir = work_dir
        self._options = options
        self._unbuffered = "unbuffered" in options
        self._label = "label" in options
        self._inputs: list[int] = []
        self._outputs: list[asyncio.Task[None]] = []
        self._input_task: asyncio.Task[None] | None = None

    async def open(self, task: int) -> TaskFiles:
        """Descriptors for one task, to be closed by `close_task` once it has them."""
        stdin = self._stdin(task)
        stdout = await self._output("output", b"o", task)
        same = "output" in self._options and "error" not in self._options
        stderr = stdout if same else await self._output("error", b"e", task)
        return TaskFiles(stdin, stdout, stderr)

    @staticmethod
    def close_task(files: TaskFiles) -> None:
        for fd in {files.stdin, files.stdout, files.stderr}:
            if fd is not None:
                os.close(fd)

    def _path(self, name: str, task: int) -> str:
        return os.path.join(self._work_dir, expand(name, self._step.job, self._step, task))

    def _stdin(self, task: int) -> int | None:
        wanted = self._options.get("input", "all")
        if wanted == "none" or (wanted.isdigit() and int(wanted) != task):
            return None
        if wanted == "all" or wanted.isdigit():
            read, write = make_pipe()
            self._inputs.append(write)
            return read
        return os.open(self._path(wanted, task), os.O_RDONLY)

    async def _output(self, option: str, kind: bytes, task: int) -> int | None:
        wanted = self._options.get(option, "all")
        if wanted == "none":
            return None
        if wanted != "all":
            append = self._options.get("open-mode", "").startswith("a") or task > 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append else os.O_TRUNC)
            return os.open(self._path(wanted, task), flags, 0o644)
        read, write = make_pipe()
        reader = asyncio.StreamReader(limit=BLOCK_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", 0)
        )
        label = f"{task}: ".encode() if self._label else b""
        self._outputs.append(
            asyncio.create_task(self._carry_output(reader, transport, kind, label))
        )
        return write

    async def _carry_output(
        self,
        reader: asyncio.StreamReader,
        transport: asyncio.BaseTransport,
        kind: bytes,
        label: bytes,
    ) -> None:
        held = b""
        while data := await reader.read(BLOCK_BYTES):
            if not self._unbuffered:
                # As slurmstepd does: only whole lines leave, the rest waits for its end.
                data, newline, held = (held + data).rpartition(b"\n")
                data += newline
            await self._deliver(kind, data, label)
        await self._deliver(kind, held, label)
        transport.close()

    async def _deliver(self, kind: bytes, data: bytes, label: bytes) -> None:
        if not data:
            return
        if label:
            data = b"".join(label + line for line in data.splitlines(keepends=True))
        self._call.frame(kind, data)
        await self._call.flush()

    def start_input(self) -> None:
        """Begin to pass srun's standard input to the tasks that want it."""
        if self._inputs:
            self._call.want_stdin()
            self._input_task = asyncio.create_task(self._carry_input())

    async def _carry_input(self) -> None:
        loop = asyncio.get_running_loop()
        writers = []
        try:
            while self._inputs:
                pipe = os.fdopen(self._inputs.pop(), "wb", 0)
                transport, protocol = await loop.connect_write_pipe(
                    asyncio.streams.FlowControlMixin, pipe
                )
                writers.append(asyncio.StreamWriter(transport, protocol, None, loop))
            while block := await self._call.stdin_block():
                for writer in writers:
                    with contextlib.suppress(OSError):
                        writer.write(block)
                        await writer.drain()
        finally:
            for writer in writers:
                writer.close()

    async def finish(self) -> None:
        """After the tasks have ended: deliver the rest of their output, stop the input."""
        if self._input_task is not None:
            await finish(self._input_task)
        while self._inputs:
            os.close(self._inputs.pop())
        await asyncio.gather(*self._outputs)
