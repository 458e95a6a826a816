"""Which of several processes this one is, and where they meet.

Slurm says how many there are, and gives no port to meet at. Rank 0 listens at the first free one
of a few that the number of the job suggests; the others try the same, and know it by the word that
it says. So two jobs on one node do not meet each other, whatever else listens there.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.slurm import hostlist
from jupyter_hpc.training.common import number, torch_module

#: Ports that systems do not give away by themselves, and how many of them are tried.
_FIRST_PORT, _PORTS, _TRIED = 10_000, 20_000, 32
#: How long a server has to say whose it is.
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Ranks:
    """The number of this process among all, and among those of its node."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    #: Where rank 0 listens; torchrun or a person has said at which port, or it is found out.
    host: str = "localhost"
    port: int | None = None

    def export(self, port: int | None) -> None:
        """Tell libraries that read the environment themselves."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        values = (self.rank, self.size, self.local_rank, self.local_size)
        os.environ.update({name: str(value) for name, value in zip(names, values, strict=True)})
        if port is not None:
            os.environ.update(MASTER_ADDR=self.host, MASTER_PORT=str(port))


def ranks_here() -> Ranks:
    """What torchrun, Slurm or a person has set up; UsageError where the job does not fit it."""
    tasks = number("SLURM_STEP_NUM_TASKS")
    by_hand = number("WORLD_SIZE") or 1
    if by_hand > 1 and ("TORCHELASTIC_RUN_ID" in os.environ or not tasks or tasks == 1):
        return _by_hand(by_hand)
    reserved, nodes = number("SLURM_NTASKS") or 1, number("SLURM_JOB_NUM_NODES") or 1
    if tasks is None and reserved > 1:
        raise UsageError(
            f"#SBATCH --ntasks reserves {reserved} tasks, and this program was started once.",
            "Start it in each of them: srun python …",
        )
    if tasks == 1 and nodes > 1:
        raise UsageError(
            f"The job has {nodes} nodes and one task, so that all but one node would be idle.",
            "Ask for tasks on each: #SBATCH --ntasks-per-node=1, or as many as it has GPUs.",
        )
    if tasks is None or tasks == 1:
        return Ranks()
    each = re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    counts = [int(count) for count, times in each for _ in range(int(times or 1))]
    node = number("SLURM_NODEID") or 0
    listed = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST", "")
    return Ranks(
        number("SLURM_PROCID") or 0,
        tasks,
        number("SLURM_LOCALID") or 0,
        counts[node] if node < len(counts) else tasks,
        hostlist.first(listed) or "localhost",
    )


def _by_hand(size: int) -> Ranks:
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    rank, local, local_size, port = (number(name) for name in names)
    host = os.environ.get("MASTER_ADDR")
    if rank is None or port is None or not host:
        raise UsageError(
            f"WORLD_SIZE is {size}, but not all of RANK, MASTER_ADDR and MASTER_PORT are set.",
            "Start the program by srun or torchrun, which set them.",
        )
    return Ranks(rank, size, local or 0, local_size or size, host, port)


def check_gpus(ranks: Ranks, each: int) -> None:
    """UsageError where the GPUs of this node are not `each` for every process of it."""
    gpus = number("SLURM_GPUS_ON_NODE") or 0
    if ranks.size == 1 or not gpus or ranks.local_size * each == gpus:
        return
    tasks, rest = divmod(gpus, each)
    fits = f"#SBATCH --ntasks-per-node={tasks}, or " if tasks and not rest else ""
    raise UsageError(
        f"{ranks.local_size} tasks on {socket.gethostname()} have {gpus} GPUs"
        f" ({each} for each are wanted).",
        f"Ask for {fits}#SBATCH --gpus-per-node={ranks.local_size * each}; tasks with other "
        "numbers of GPUs: distributed(gpus_per_process=…)",
    )


class Meeting:
    """What all ranks of the job share; on rank 0 a thread tells the others where it is."""

    def __init__(self, ranks: Ranks, wait_seconds: float, count: int) -> None:
        """`count` tells the meetings of one process apart."""
        self._store_of = torch_module().distributed.TCPStore
        self._ranks, self._wait = ranks, timedelta(seconds=wait_seconds)
        names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
        self._token = ".".join([*(os.environ.get(name, "0") for name in names), str(count)])
        self._ports = _ports()
        self._server: socket.socket | None = None
        deadline = time.monotonic() + wait_seconds
        while (found := self._listen() if ranks.rank == 0 else self._find()) is None:
            if time.monotonic() > deadline:
                raise HpcError(
                    f"Rank {ranks.rank} on {socket.gethostname()} did not meet rank 0 on "
                    f"{ranks.host} within {wait_seconds:.0f} s, at none of the ports "
                    f"{self._ports[0]}, {self._ports[1]}, ….",
                    "Look in the log why rank 0 did not start; or a firewall is between them.",
                )
            time.sleep(0.1)
        self.store = found
        self.port = int(found.port)

    def close(self) -> None:
        """All are here."""
        if self._server is not None:
            self._server.close()

    def _listen(self) -> Any:
        """The store, if one of the ports is free."""
        for port in self._ports:
            try:
                self._server = server = socket.create_server(("", port))
                break
            except OSError:
                continue
        else:
            return None
        size = self._ranks.size
        store = self._store_of("localhost", 0, size, True, self._wait, wait_for_workers=False)
        answer = f"{self._token} {store.port}\n".encode()

        def tell() -> None:
            with contextlib.suppress(OSError):  # closed
                while True:
                    guest, _ = server.accept()
                    with guest, contextlib.suppress(OSError):
                        guest.sendall(answer)

        threading.Thread(target=tell, daemon=True).start()
        return store

    def _find(self) -> Any:
        """The store, if rank 0 listens by now; who else does is silent, or says another word."""
        for port in self._ports:
            try:
                with socket.create_connection((self._ranks.host, port), _ANSWER_SECONDS) as guest:
                    token, _, at = guest.makefile().readline(200).partition(" ")
                if token == self._token:
                    host, size = self._ranks.host, self._ranks.size
                    return self._store_of(
                        host, int(at), size, False, self._wait, wait_for_workers=False
                    )
            except (OSError, ValueError):
                continue
        return None


def _ports() -> list[int]:
    """Where to meet: first where the job says, then at others that depend on it."""
    job, step = number("SLURM_JOB_ID") or 0, number("SLURM_STEP_ID") or 0
    start = job * 37 + step * 7
    found = [_FIRST_PORT + (start + 613 * nth) % _PORTS for nth in range(_TRIED)]
    suggested = number("MASTER_PORT")
    return [suggested, *found] if suggested else found
