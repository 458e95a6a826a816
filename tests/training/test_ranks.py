"""Who is who in a job, and where its processes meet."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training import Run, distributed
from jupyter_hpc.training.ranks import Ranks, check_gpus, ranks_here

pytestmark = pytest.mark.timeout(400)

STEP = {
    "SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NODELIST": "gcn[41-42]",
}  # fmt: skip
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "gcn41", "MASTER_PORT": "29500",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("SLURM_", "MASTER_", "TORCHELASTIC")) or name in TORCHRUN:
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Ranks()),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, Ranks()),  # a session
        (STEP, Ranks(2, 4, 0, 2, "gcn41")),
        ({**STEP, "WORLD_SIZE": "4", "MASTER_PORT": "12345"}, Ranks(2, 4, 0, 2, "gcn41")),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "1,3"}, Ranks(2, 4, 0, 3, "gcn41")),
        (TORCHRUN, Ranks(3, 4, 1, 2, "gcn41", 29500)),
        ({**STEP, **TORCHRUN}, Ranks(3, 4, 1, 2, "gcn41", 29500)),  # one torchrun on each node
        ({"SLURM_STEP_NUM_TASKS": "1", "WORLD_SIZE": "1", "MASTER_PORT": "1"}, Ranks()),
    ],
)  # fmt: skip
def test_slurm_torchrun_and_nobody_say_who_is_who(
    variables: dict[str, str], expected: Ranks
) -> None:
    os.environ.update(variables)
    assert ranks_here() == expected


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SLURM_NTASKS": "4"}, "#SBATCH --ntasks reserves 4 tasks.*srun"),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_NUM_NODES": "2"}, "2 nodes and one task"),
        ({"WORLD_SIZE": "4", "RANK": "1"}, "not all of RANK, MASTER_ADDR and MASTER_PORT"),
    ],
)  # fmt: skip
def test_a_job_that_does_not_fit_is_told_the_line(variables: dict[str, str], words: str) -> None:
    os.environ.update(variables)
    with pytest.raises(UsageError, match=words):
        ranks_here()


def test_gpus_that_do_not_fit_the_tasks_are_told_the_line() -> None:
    os.environ["SLURM_GPUS_ON_NODE"] = "4"
    ranks = Ranks(0, 4, 0, 2)
    check_gpus(ranks, 2)
    with pytest.raises(
        UsageError, match=r"2 tasks on .* have 4 GPUs .*#SBATCH --ntasks-per-node=4"
    ):
        check_gpus(ranks, 1)
    with pytest.raises(UsageError, match="#SBATCH --gpus-per-node=6"):
        check_gpus(ranks, 3)
    check_gpus(Ranks(), 1)  # one process, which may start others


@pytest.mark.usefixtures("torch")
def test_two_jobs_with_one_port_on_one_node_do_not_meet() -> None:
    """Job 20011 begins where job 11 does, and somebody silent listens there already."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        children = {}
        for job in (11, 20011):
            for rank in (1, 0):
                child = os.fork()
                if not child:
                    os._exit(_member(job, rank, port))
                children[child] = job, rank
        ended = {children[pid]: os.waitstatus_to_exitcode(code) for pid, code in
                 (os.waitpid(pid, 0) for pid in children)}  # fmt: skip
    assert ended == dict.fromkeys(ended, 0)


def _member(job: int, rank: int, port: str) -> int:
    import torch

    os.environ.update(STEP, SLURM_JOB_ID=str(job), SLURM_PROCID=str(rank), SLURM_NODEID="0")
    os.environ.update(SLURM_STEP_NUM_TASKS="2", SLURM_STEP_TASKS_PER_NODE="2", MASTER_PORT=port)
    os.environ.update(SLURM_STEP_NODELIST="localhost")
    try:
        for _ in range(2):  # a second meeting of the same job is another one
            with distributed(timeout="60 s", every_rank_prints=True):
                total = torch.tensor([job])
                torch.distributed.all_reduce(total)
                assert int(total) == 2 * job, total
                assert os.environ["MASTER_PORT"] != port
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@pytest.mark.usefixtures("torch")
def test_one_process_alone_just_works(torch: Any, tmp_path: Any) -> None:
    for _ in range(2):
        with distributed() as world:
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
            assert (world.rank, world.size, world.is_leader) == (0, 1, True)
            with distributed() as inner, Run(folder=tmp_path / "run", model=model) as run:
                assert inner.size == 1
                list(run.epochs(1))
            assert world.spawn(lambda world, text: text * 2, "ab") == "abab"
    assert not torch.distributed.is_initialized()
    with Run(folder=tmp_path / "run", model=torch.nn.Linear(1, 1)) as run:
        assert run.resumed  # without DistributedDataParallel as well
