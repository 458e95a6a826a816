"""The GPUs of the further nodes of this job: a sampler in a step on each, while somebody looks.

A sampler is started by the first question and ended when there has been none for a while,
with the server, or with the job: its standard input ends with each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Sequence

from jupyter_hpc.errors import GpuUnavailable, HpcError
from jupyter_hpc.gpu.sampler import silent_driver
from jupyter_hpc.node.services.gpus import describe_sample
from jupyter_hpc.node.services.node_sampler import (
    INTERVAL_SECONDS,
    PROGRAM,
    NodeSample,
    read_line,
)
from jupyter_hpc.node.services.notebooks import Owner
from jupyter_hpc.node.services.signal import Signal
from jupyter_hpc.node.values import problem_of
from jupyter_hpc.runner import start_process
from jupyter_hpc.slurm.allocate import step_argv
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.job_environment import JobEnvironment
from jupyter_hpc.slurm.releases import Release, release_name, shares_gpus
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import finish, within

#: Without a question for so long nobody looks, and the samplers are ended.
LEASE_SECONDS = 15.0
#: A sampler that ended is started again after so long.
RETRY_SECONDS = 30.0
#: A sampler that was told to end has so long before its step is signalled.
END_SECONDS = 3.0
#: Without a line for so long the values of a node are called stale.
STALE_SECONDS = 3 * INTERVAL_SECONDS
#: No line is longer: one of 16 GPUs has 8 kB.
MAX_LINE_BYTES = 1 << 20

STEP_NAME = "jupyter-hpc-gpus"


class _Lines(asyncio.SubprocessProtocol):
    """Hands over whole lines, keeps the last words of stderr, and knows when it is over."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self.ended = asyncio.Event()
        self.errors = b""
        self._rest = b""
        self._on_line = on_line

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.errors = (self.errors + data)[-2000:]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[:MAX_LINE_BYTES]
        for line in lines:
            self._on_line(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()  # after the last words, unlike process_exited


class _Node:
    """One further node and what it said last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said: NodeSample | None = None
        self.failure: HpcError | None = None
        self.sampled_at = 0.0


class NodesService:
    """Answers for all further nodes of the job of this server; `changed` rings with news."""

    def __init__(
        self,
        job: JobEnvironment | None,
        own_node: str,
        client: SlurmClient,
        rewritten: Callable[[Sequence[str]], list[str]] = list,
        *,
        enabled: bool = True,
    ) -> None:
        self.changed = Signal()
        self._job_id = job.id if job else ""
        self._nodes = [_Node(name) for name in _further(job, own_node)]
        self._client = client
        self._rewritten = rewritten
        self._enabled = enabled
        self._asked = asyncio.Event()
        self._sampling: asyncio.Task[None] | None = None

    async def read(self) -> dict[str, object]:
        """The newest sample of each further node; starts their samplers."""
        if not self._enabled:
            raise GpuUnavailable("This site has switched off the GPU panel.", "")
        self._asked.set()
        if self._nodes and (self._sampling is None or self._sampling.done()):
            self._sampling = asyncio.create_task(self._keep())
        return {"nodes": [_described(node) for node in self._nodes]}

    async def stop(self) -> None:
        """End all samplers."""
        if self._sampling is not None:
            await finish(self._sampling)

    async def _keep(self) -> None:
        """Keep a sampler on each node as long as somebody asks, also while they are ended."""
        while self._asked.is_set():
            sampling = asyncio.create_task(self._sample_all())
            try:
                with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                    while True:
                        self._asked.clear()
                        await within(self._asked.wait(), LEASE_SECONDS)
            finally:
                self._forget()  # at once: to end a step takes a while
                await finish(sampling)
                self._forget()

    def _forget(self) -> None:
        for node in self._nodes:
            node.said, node.failure = None, None

    async def _sample_all(self) -> None:
        while True:
            try:
                release, shares = await self._shares()
                break
            except HpcError as error:
                for node in self._nodes:
                    self._fail(node, error)
            await asyncio.sleep(RETRY_SECONDS)
        samples = (self._sample(each, shares.get(each.name), release) for each in self._nodes)
        await asyncio.gather(*samples)

    async def _shares(self) -> tuple[Release, dict[str, int]]:
        """Slurm's release and the GPUs of each node.

        Raises GpuUnavailable where a look at them would take them away.
        """
        version, shares = await asyncio.gather(
            self._client.version(), self._client.node_gpus(self._job_id)
        )
        if not shares_gpus(version):
            raise GpuUnavailable(
                f"Slurm {release_name(version)} does not share GPUs between steps, and a look "
                "at these would keep them from your own srun.",
                "Where the site lets you log in to nodes, ssh NODE nvidia-smi shows them.",
            )
        return version, shares

    async def _sample(self, node: _Node, gpus: int | None, release: Release) -> None:
        if gpus == 0:
            self._fail(node, GpuUnavailable("This node has no GPU of the job.", ""))
            return
        program = [sys.executable, "-c", PROGRAM, f"{INTERVAL_SECONDS:g}"]
        argv = step_argv(
            self._job_id, program, node=node.name, gpus=gpus, release=release, no_input=False,
            quiet=True, name=STEP_NAME,
        )  # fmt: skip
        while True:
            try:
                said = await self._run(node, self._rewritten(argv))
                self._fail(node, _ended(node.name, said))
            except HpcError as error:
                self._fail(node, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _run(self, node: _Node, argv: Sequence[str]) -> str:
        """Run a sampler to its end; what it wrote to stderr."""

        def on_line(line: bytes) -> None:
            said = read_line(line)
            if said is not None:
                node.said, node.failure, node.sampled_at = said, None, time.monotonic()
                self.changed.ring()

        protocol = _Lines(on_line)
        transport = await start_process(argv, lambda: protocol)
        try:
            await protocol.ended.wait()
            return printable(protocol.errors.decode("utf-8", "replace"), 300).strip()
        finally:
            await _end(transport, protocol)

    def _fail(self, node: _Node, error: HpcError) -> None:
        node.failure = error
        self.changed.ring()


async def _end(transport: asyncio.SubprocessTransport, protocol: _Lines) -> None:
    """Let the sampler end with its standard input; if it does not, srun is told to end the step."""
    stdin = transport.get_pipe_transport(0)
    if stdin is not None:
        stdin.close()
    try:
        for insist in (False, True):
            if insist and not protocol.ended.is_set():
                with contextlib.suppress(ProcessLookupError):
                    transport.terminate()
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await within(protocol.ended.wait(), END_SECONDS)
    finally:
        transport.close()  # also when nobody waits for the end any more


def _further(job: JobEnvironment | None, own_node: str) -> list[str]:
    """The nodes of the job but this one, by its name in Slurm or as a host."""
    nodes = list(job.nodes) if job else []
    own = {own_node, own_node.partition(".")[0]}
    return [name for name in nodes if name not in own and name.partition(".")[0] not in own]


def _ended(node: str, said: str) -> GpuUnavailable:
    return GpuUnavailable(
        f"The GPUs of {node} cannot be read: "
        + (said.rstrip(".") if said else "the step that reads them has ended")
        + ".",
        "It is tried again every half minute. The same Python environment has to be on every node.",
    )


def _described(node: _Node) -> dict[str, object]:
    said, failure = node.said, node.failure
    if said is None or said.sample is None:
        reason = failure or (said.failure if said else None)
        return {"name": node.name, "gpus": None, "problem": problem_of(reason)}
    silent = time.monotonic() - node.sampled_at
    if failure is None:
        failure = said.failure or (silent_driver(silent) if silent > STALE_SECONDS else None)
    owners = {pid: Owner(name, None) for pid, name in said.names.items()}
    described = describe_sample(
        said.sample, said.source, said.driver, failure, INTERVAL_SECONDS, owners,
        said.idle_since.get,
    )  # fmt: skip
    return {"name": node.name, "gpus": described, "problem": None}
