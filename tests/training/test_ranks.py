"""Who is who in a job, and where its processes meet."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training import Run, distributed
from jupyter_hpc.training.ranks import Ranks, check_gpus, meet, ranks_here

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
        (STEP, Ranks(2, 4, 0, 2)),
        ({**STEP, "WORLD_SIZE": "4", "MASTER_PORT": "12345"}, Ranks(2, 4, 0, 2)),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "1,3"}, Ranks(2, 4, 0, 3)),
        (TORCHRUN, Ranks(3, 4, 1, 2, True)),
        ({**STEP, **TORCHRUN}, Ranks(3, 4, 1, 2, True)),  # one torchrun on each node
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


def test_libraries_that_meet_by_themselves_find_an_address() -> None:
    os.environ.update(STEP, SLURM_JOB_ID="20011")
    ranks_here().export()
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("gcn41", "10011")
    os.environ.update(MASTER_ADDR="mine", MASTER_PORT="1")
    ranks_here().export()
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("mine", "1")


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
def test_two_jobs_on_one_node_do_not_meet(tmp_path: Path) -> None:
    children = {}
    for job in (11, 20011):
        for rank in (1, 0):
            child = os.fork()
            if not child:
                os._exit(_member(job, rank, tmp_path))
            children[child] = job, rank
    ended = {children[pid]: os.waitstatus_to_exitcode(code) for pid, code in
             (os.waitpid(pid, 0) for pid in children)}  # fmt: skip
    assert ended == dict.fromkeys(ended, 0)
    assert [path.name for path in (tmp_path / ".meetings").iterdir()] == ["lock"]


def _member(job: int, rank: int, folder: Path) -> int:
    import torch

    os.environ.update(STEP, SLURM_JOB_ID=str(job), SLURM_PROCID=str(rank), SLURM_NODEID="0")
    os.environ.update(SLURM_STEP_NUM_TASKS="2", SLURM_STEP_TASKS_PER_NODE="2")
    os.environ.update(JUPYTER_HPC_CHECKPOINTS=str(folder))
    try:
        for _ in range(2):  # a second meeting of the same job is another one
            with distributed(timeout="60 s", every_rank_prints=True):
                total = torch.tensor([job])
                torch.distributed.all_reduce(total)
                assert int(total) == 2 * job, total
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@pytest.mark.usefixtures("torch")
def test_who_does_not_come_is_counted(tmp_path: Path) -> None:
    os.environ.update(JUPYTER_HPC_CHECKPOINTS=str(tmp_path))
    with pytest.raises(HpcError, match=r"1 of 3 processes came to .*/\.meetings/.* within 1 s"):
        meet(Ranks(0, 3), 1, 1)


@pytest.mark.usefixtures("torch")
@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_another_user_finds_no_way_to_a_meeting(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    os.environ.update(JUPYTER_HPC_CHECKPOINTS=str(tmp_path), SLURM_JOB_ID="7")
    store = meet(Ranks(0, 1), 5, 1)
    (path,) = (tmp_path / ".meetings").glob("7-*")
    child = os.fork()
    if not child:
        os.setuid(65534)
        try:
            path.read_bytes()
        except PermissionError:
            os._exit(0 if not _listening() else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.num_keys() >= 2


def _listening() -> list[str]:
    """The sockets at which this process, or the one that it is a copy of, is listening."""
    inodes = {os.stat(f"/proc/self/fd/{each}").st_ino for each in os.listdir("/proc/self/fd")
              if os.path.exists(f"/proc/self/fd/{each}")}  # fmt: skip
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and int(row[9]) in inodes]


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("why", ["open to others", "has no locks"])
def test_a_folder_that_is_not_fit_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    import fcntl

    output, state = tmp_path / "output", tmp_path / "state"
    os.environ.update(
        JUPYTER_HPC_CHECKPOINTS=str(output), XDG_STATE_HOME=str(state), SLURM_JOB_ID="7"
    )
    meetings = output / ".meetings"
    meetings.mkdir(parents=True)
    meetings.chmod(0o777 if why == "open to others" else 0o700)
    lock = fcntl.flock

    def flock(file: Any, how: int) -> None:
        if why == "has no locks" and Path(file.name).parent in refused:
            raise OSError(95, why)
        lock(file, how)

    refused = {meetings}
    monkeypatch.setattr(fcntl, "flock", flock)
    store = meet(Ranks(), 5, 1)
    assert list((state / "jupyter-hpc" / ".meetings").glob("7-*")) and store
    refused.add(state / "jupyter-hpc" / ".meetings")
    (state / "jupyter-hpc" / ".meetings").chmod(0o755 if why == "open to others" else 0o700)
    with pytest.raises(HpcError, match=f"cannot meet in a folder of yours: .*{why}"):
        meet(Ranks(), 5, 2)


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
