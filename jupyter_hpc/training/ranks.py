"""Which of several processes this one is, and where they meet.

Slurm says how many there are, and gives nothing to meet at that only they have. They meet at a
file that is named after the job: so two jobs on one node do not meet each other, and nobody else
can open it.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.slurm import hostlist
from jupyter_hpc.training.common import number, torch_module

#: The folder of the files at which processes meet.
MEETINGS = ".meetings"


@dataclass(frozen=True)
class Ranks:
    """The number of this process among all, and among those of its node."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    #: Whether torchrun or a person has said where they meet.
    have_place: bool = False

    def export(self) -> None:
        """Tell libraries that read the environment themselves."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        values = (self.rank, self.size, self.local_rank, self.local_size)
        os.environ.update({name: str(value) for name, value in zip(names, values, strict=True)})
        nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
        if nodes and not self.have_place:  # as jobs of ours have it; nobody listens there yet
            os.environ.setdefault("MASTER_ADDR", hostlist.first(nodes) or nodes)
            port = 10000 + (number("SLURM_JOB_ID") or 0) % 20000
            os.environ.setdefault("MASTER_PORT", str(port))


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
    return Ranks(
        number("SLURM_PROCID") or 0,
        tasks,
        number("SLURM_LOCALID") or 0,
        counts[node] if node < len(counts) else tasks,
    )


def _by_hand(size: int) -> Ranks:
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    rank, local, local_size, port = (number(name) for name in names)
    if rank is None or port is None or not os.environ.get("MASTER_ADDR"):
        raise UsageError(
            f"WORLD_SIZE is {size}, but not all of RANK, MASTER_ADDR and MASTER_PORT are set.",
            "Start the program by srun or torchrun, which set them.",
        )
    return Ranks(rank, size, local or 0, local_size or size, have_place=True)


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


def meet(ranks: Ranks, wait_seconds: float, count: int) -> Any:
    """What all ranks of the job share: a file, so that nobody else can join or disturb them.

    torch's TCPStore asks nobody who he is, and its port is open to all who reach the node. `count`
    tells the meetings of one process apart.
    """
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    name = "-".join([*(os.environ.get(name, "0") for name in names), str(count)])
    path = _meeting_folder() / name
    store = torch_module().distributed.FileStore(str(path), ranks.size)
    store.set_timeout(timedelta(seconds=wait_seconds))
    if store.add("joined", 1) >= ranks.size:
        store.set("complete", "")
    try:
        store.wait(["complete"])
    except RuntimeError as error:
        raise HpcError(
            f"{store.add('joined', 0)} of {ranks.size} processes came to {path} within "
            f"{wait_seconds:.0f} s.",
            "Look in the log why the others did not start; all nodes have to see that folder.",
        ) from error
    return store


def _meeting_folder() -> Path:
    """A place of this user alone that all nodes see, with the locks that a FileStore needs."""
    import fcntl  # which Windows has not

    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    why = ""
    for place in (os.environ.get("JUPYTER_HPC_CHECKPOINTS"), Path(state, "jupyter-hpc")):
        if not place:
            continue
        folder = Path(place, MEETINGS)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
            if found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise PermissionError(f"{folder} is open to others")
            with open(folder / "lock", "a+", encoding="ascii") as file:
                fcntl.flock(file, fcntl.LOCK_SH)
        except OSError as error:
            why = why or str(error)
            continue
        return folder
    raise HpcError(
        f"The processes cannot meet in a folder of yours: {why}.",
        "Set XDG_STATE_HOME to one that all nodes share, or start them with torchrun.",
    )
