"""The processes that train together: in a job its tasks, in a session one for each GPU."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training.common import peer_seconds, say, seconds, torch_module
from jupyter_hpc.training.defaults import device
from jupyter_hpc.training.ranks import Ranks, check_gpus, meet, ranks_here

#: Backend, timeout in seconds, and whether all print.
Options = tuple[str | None, float, bool]
#: How long processes that were told to end have for it.
_END_SECONDS = 30.0
#: A process that meets the others several times tells these meetings apart.
_meetings = itertools.count(1)
_FORWARDED = (signal.SIGUSR1, signal.SIGTERM) if hasattr(signal, "SIGUSR1") else ()


@dataclass(frozen=True)
class World:
    """The processes of one training, and this one among them."""

    rank: int
    size: int
    local_rank: int
    device: Any
    #: For the processes that are started from here.
    options: Options

    @property
    def is_leader(self) -> bool:
        """Whether this process is the one that prints, draws and writes files."""
        return self.rank == 0

    def sampler(self, data: Any, **options: Any) -> Any:
        """For DataLoader(data, sampler=…): each process reads its share of the samples."""
        return torch_module().utils.data.DistributedSampler(
            data, num_replicas=self.size, rank=self.rank, **options
        )

    def spawn(
        self, function: Callable[..., Any], *arguments: Any, processes: int | None = None
    ) -> Any:
        """What `function(world, …)` returns on rank 0: numbers, text, tensors and lists of them.

        Alone, it is started once for each GPU (or `processes` times). In a job each of the
        processes of the job calls it.
        """
        torch = torch_module()
        count = processes or torch.cuda.device_count() or 1
        if self.size > 1 or count == 1:
            return function(self, *arguments)
        if torch.cuda.is_initialized():
            raise UsageError(
                "This session has used its GPU before, so that no further process can.",
                "Restart the kernel, and begin with world.spawn(…).",
            )
        # Threads and connections of a group do not survive in a copy of this process.
        torch.distributed.destroy_process_group()
        try:
            with tempfile.TemporaryDirectory(prefix="jupyter-hpc-") as folder:
                _run_copies(count, (self.options, count, Path(folder), function, arguments))
                result = Path(folder, "result")
                return torch.load(result, weights_only=True) if result.exists() else None
        finally:
            _join(Ranks(), self.options, torch.distributed.HashStore())


@contextlib.contextmanager
def distributed(
    *,
    backend: str | None = None,
    timeout: str | float = "10 min",
    gpus_per_process: int = 1,
    every_rank_prints: bool = False,
) -> Iterator[World]:
    """Join the processes of this job; one process that nobody has company for just works.

    `timeout` is how long one may wait for another. What ranks other than 0 print is not shown.
    """
    dist = torch_module().distributed
    options = (backend, seconds(timeout), every_rank_prints)
    if dist.is_initialized():  # by world.spawn, or by somebody else
        local = int(os.environ.get("LOCAL_RANK", 0))
        yield World(dist.get_rank(), dist.get_world_size(), local, device(), options)
        return
    # Looking for GPUs must not use them: that is left to processes that are started later.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    ranks = ranks_here()
    if backend is None:
        check_gpus(ranks, gpus_per_process)
    if ranks.size == 1:
        world = _join(ranks, options, dist.HashStore())
    else:
        ranks.export()
        store = None if ranks.have_place else meet(ranks, options[1], next(_meetings))
        world = _join(ranks, options, store)
    with _joined(world):
        yield world


def _join(ranks: Ranks, options: Options, store: Any) -> World:
    """Make the group of all processes; without a store, as the environment says."""
    torch = torch_module()
    backend, timeout, _ = options
    peer_seconds.set(timeout)
    found = device(ranks.local_rank)
    if found.type == "cuda" and ranks.size > 1:
        torch.cuda.set_device(found)
    # One process with several GPUs keeps away from them, because it may start others.
    uses_gpu = found.type == "cuda" and (ranks.size > 1 or torch.cuda.device_count() == 1)
    try:
        torch.distributed.init_process_group(
            backend or ("cpu:gloo,cuda:nccl" if uses_gpu else "gloo"),
            store=store, rank=ranks.rank, world_size=ranks.size,
            timeout=timedelta(seconds=timeout),
        )  # fmt: skip
        if ranks.size > 1:  # a connection that cannot be made shows here, not hours later
            torch.distributed.barrier()
    except RuntimeError as error:
        raise HpcError(
            f"Rank {ranks.rank} on {socket.gethostname()} cannot talk to the others: {error}",
            "If a node has several networks: export GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.",
        ) from error
    return World(ranks.rank, ranks.size, ranks.local_rank, found, options)


@contextlib.contextmanager
def _joined(world: World) -> Iterator[None]:
    """Only the leader prints; a failure says where it was; a group is left in the end."""
    with contextlib.ExitStack() as stack:
        if world.is_leader and world.size > 1:
            say(f"{world.size} processes train together, on {world.device.type}")
        elif not world.is_leader and not world.options[2]:
            nothing = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(nothing))
        leaves = True
        try:
            yield
        except Exception as error:
            leaves = world.size == 1
            if not leaves:  # the others may be waiting: leaving as one should would wait as well
                say(f"rank {world.rank} on {socket.gethostname()} failed: {error}")
            raise
        finally:
            dist = torch_module().distributed
            if leaves and dist.is_initialized():
                dist.destroy_process_group()


# ---- the processes of a session ----------------------------------------------
def _run_copies(count: int, arguments: tuple[Any, ...]) -> None:
    """Copies of this process, to their end; signals for this one reach them as well."""
    multiprocessing = torch_module().multiprocessing
    context = multiprocessing.start_processes(
        _copy, arguments, count, join=False, start_method="fork"
    )

    def forward(code: int, frame: FrameType | None) -> None:
        for process in context.processes:
            if process.is_alive():
                os.kill(process.pid, code)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {code: signal.signal(code, forward) for code in _FORWARDED}
    try:
        while not context.join():
            pass
    except multiprocessing.ProcessExitedException as error:
        raise SystemExit(error.exit_code) from error  # 85: there is more to do
    finally:
        for process in context.processes:
            process.terminate()
        for process in context.processes:
            process.join(_END_SECONDS)
            process.kill()
            process.join()
        for code, handler in before.items():
            signal.signal(code, handler if handler is not None else signal.SIG_DFL)


def _copy(
    rank: int,
    options: Options,
    count: int,
    folder: Path,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """One of them: join the others at a file of this node, and do the work."""
    torch = torch_module()
    torch.set_num_threads(1)  # those of the process that was copied are not in the copy
    for code in _FORWARDED:
        signal.signal(code, signal.SIG_DFL)
    ranks = Ranks(rank, count, rank, count)
    ranks.export()
    world = _join(ranks, options, torch.distributed.FileStore(str(folder / "store"), count))
    with _joined(world):
        result = function(world, *arguments)
        if world.is_leader and result is not None:
            torch.save(result, folder / "result")
        sys.stdout.flush()
