"""Several processes train together: they save the same step, and go on as if nothing had been."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training import Run, World, distributed
from tests.training.loops import digest
from tests.training.site import torch_site

#: Processes are copies of this one, on a machine that may be busy.
pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.timeout(400)]

EPOCHS, ROWS, BATCH, RANKS = 2, 48, 2, 4
STEPS = EPOCHS * ROWS // BATCH // RANKS


def train(world: World, folder: Path, end_at: int = -1, end_rank: int = 0) -> dict[str, Any]:
    """Train together on a few rows, with random changes of each process's own."""
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Linear(8, 1))
    torch.manual_seed(1 + world.rank)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    rows = [(n, torch.full((3,), n / ROWS)) for n in range(ROWS)]
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH, sampler=world.sampler(rows))
    with Run(model=model, optimizer=optimizer, folder=folder, every=1000) as run:
        run.state.setdefault("seen", [])
        for _ in run.epochs(EPOCHS):
            for indices, values in run.batches(loader):
                optimizer.zero_grad()
                noise = torch.randn(()) if run.folder.name != "plain" else torch.zeros(())
                loss = (model(values) + noise * 0.1 - 1).pow(2).mean()
                loss.backward()
                optimizer.step()
                run.state["seen"].append((indices.tolist(), loss.item()))
                if run.step + 1 == end_at and world.rank == end_rank:
                    os.kill(os.getpid(), signal.SIGUSR1)
    seen: list[Any] = [None] * world.size
    torch.distributed.all_gather_object(seen, run.state["seen"])
    return {
        "seen": seen,
        "weights": digest(model.module.state_dict()),
        "first": model.module[0].weight.detach().tolist(),
        "optimizer": digest(optimizer.state_dict()),
        "random": torch.rand(()).item(),
    }


def spawned(processes: int, *arguments: Any, function: Any = train) -> Any:
    with distributed() as world:
        return world.spawn(function, *arguments, processes=processes)


def test_all_save_the_step_that_one_was_told_at(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = spawned(RANKS, tmp_path / "whole")
    for step, rank in ((3, 2), (8, 0)):
        with pytest.raises(SystemExit) as ended:
            spawned(RANKS, tmp_path / "parts", step, rank)
        assert ended.value.code == 85 and not (tmp_path / "parts" / "DONE").exists()
    assert spawned(RANKS, tmp_path / "parts") == whole
    assert (tmp_path / "parts" / "DONE").exists()
    shown = capfd.readouterr().err
    assert shown.count("begins anew") == 2 and shown.count("goes on at epoch") == 2, shown
    assert len([entry for each in whole["seen"] for entry in each]) == EPOCHS * ROWS // BATCH


def test_a_part_of_the_state_each_is_written_by_four_and_read_by_two(tmp_path: Path) -> None:
    four = spawned(4, tmp_path / "run", 2, function=train_sharded)
    two = spawned(2, tmp_path / "run", 4, function=train_sharded)
    one = spawned(2, tmp_path / "once", 4, function=train_sharded)
    assert two["from"] == four["step"] == 2 and digest(two["before"]) == digest(four["after"])
    assert two["state"] == {"started": 4} and two["step"] == 4
    assert torch_close(two["after"]["model"], one["after"]["model"])
    assert {int(each["step"]) for each in two["after"]["optimizer"].values()} == {4}
    newest = sorted((tmp_path / "run").glob("step-*[0-9]"))[-1]
    part = next(newest.glob("__1_*"))
    part.write_bytes(part.read_bytes()[:-1])  # one that was damaged is not even looked into
    assert spawned(2, tmp_path / "run", 4, function=train_sharded)["from"] == 3


def test_a_loop_that_is_left_when_a_save_was_due_has_ended_well(tmp_path: Path) -> None:
    def left(world: World) -> int:
        with Run(folder=tmp_path / "run", every=1000) as run:
            for _ in run.batches([1, 2, 3]):
                if run.step == 1:
                    break
                run._due = 0  # the time has elapsed at this very step
        return run.step

    assert spawned(2, function=left) == 1
    assert (tmp_path / "run" / "DONE").exists()


def test_one_that_does_not_come_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    def alone(world: World) -> float:
        with Run(folder=tmp_path / "run", every=1000) as run:
            if world.is_leader:
                began = time.monotonic()
                with pytest.raises(RuntimeError, match=r"[Tt]imed? ?out"):
                    list(run.epochs(1))
                os._exit(int(time.monotonic() - began < 60))
            signal.pause()  # till the other one has gone
            os._exit(0)
        return 0

    with pytest.raises(SystemExit) as ended, distributed(timeout="3 s") as world:
        world.spawn(alone, processes=2)
    assert ended.value.code == 1


def test_states_of_all_reach_the_leader_only(tmp_path: Path) -> None:
    def gathered(world: World) -> list[Any]:
        from jupyter_hpc.training.processes import Processes

        processes = Processes()
        state = {"of": world.rank, "rows": torch_tensor([world.rank] * 3_000_000)}
        began = time.monotonic()
        found = processes.gather_states(state)
        assert len(found) == (2 if world.is_leader else 0)
        assert processes.lead(lambda: "ä" * 3) == "äää"
        assert time.monotonic() - began < 60
        return [(each["of"], int(each["rows"].sum())) for each in found]

    assert spawned(2, function=gathered) == [(0, 0), (1, 3_000_000)]


@pytest.mark.faults
def test_torchrun_starts_them_as_well(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "batch" / "kit_training.py"
    paths = os.pathsep.join([str(torch_site().resolve()), str(program.parents[2])])
    own = {"JUPYTER_HPC_CHECKPOINTS": str(tmp_path / "run"), "JUPYTER_HPC_OUTPUT": str(tmp_path)}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", str(program)], timeout=200, capture_output=True,
        text=True, env={**os.environ, **own, "PYTHONPATH": paths, "EPOCHS": "1", "PLAIN": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"result-{n}.json").read_text()) for n in (0, 1))
    assert first["weights"] == second["weights"] and first["seen"] != second["seen"]
    assert (tmp_path / "run" / "DONE").exists()
    assert not (tmp_path / "run" / ".meetings").exists()  # they meet where torchrun says


def test_processes_that_have_unequal_shares_are_told_so(tmp_path: Path) -> None:
    def unequal(world: World) -> None:
        with Run(folder=tmp_path / "run") as run:
            for _ in run.epochs(1):
                list(run.batches([1] * (3 + world.rank)))

    with pytest.raises(Exception, match=r"not at the same step: one at 3, one at 4"):
        spawned(2, function=unequal)


def test_what_others_print_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def shown(world: World) -> int:
        # One write: the halves of two lines could mix where nothing is gathered.
        sys.stdout.write(f"printed by {world.rank}\n")
        return world.size

    assert spawned(2, function=shown) == 2
    assert capfd.readouterr().out == "printed by 0\n"
    with distributed(every_rank_prints=True) as world:
        world.spawn(shown, processes=2)
    assert sorted(capfd.readouterr().out.splitlines()) == ["printed by 0", "printed by 1"]


def test_a_failure_of_the_leader_is_said_by_all(tmp_path: Path) -> None:
    def taken(world: World) -> str:
        try:
            Run(folder=tmp_path / "file" / "run").__enter__()
        except (UsageError, OSError) as error:
            said = torch_tensor([len(str(error))])
            import torch

            torch.distributed.all_reduce(said)
            return f"{int(said)} {error}"
        return "nothing"

    (tmp_path / "file").touch()
    count, _, text = spawned(2, function=taken).partition(" ")
    assert "Not a directory" in text and int(count) == 2 * len(text)


def torch_tensor(values: list[int]) -> Any:
    import torch

    return torch.tensor(values)


def torch_close(first: Any, second: Any) -> bool:
    import torch

    return all(torch.allclose(first[name], second[name], atol=1e-6) for name in first)


def train_sharded(world: World, folder: Path, epochs: int) -> dict[str, Any]:
    """A model of which each process has a part, and its optimizer; the same data in each."""
    import torch
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    fully_shard(model, mesh=init_device_mesh("cpu", (world.size,)))
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    whole = StateDictOptions(full_state_dict=True)

    def shown() -> dict[str, Any]:
        weights, states = get_state_dict(model, optimizer, options=whole)
        moments = {name: dict(sorted(each.items())) for name, each in states["state"].items()}
        found = {"model": dict(sorted(weights.items())), "optimizer": dict(sorted(moments.items()))}
        return copy.deepcopy(found)

    with Run(model=model, optimizer=optimizer, folder=folder, every=1000, keep=9) as run:
        before, started = shown() if run.resumed else {}, run.step
        run.state.setdefault("started", world.size)
        for _ in run.epochs(epochs):
            for batch in run.batches([torch.ones(2, 8)]):
                optimizer.zero_grad()
                model(batch).pow(2).mean().backward()
                optimizer.step()
    return {
        "from": started, "step": run.step, "state": run.state, "before": before, "after": shown(),
    }  # fmt: skip
