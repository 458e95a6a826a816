"""A training with the kit, for jobs: its result holds every bit that an end must not change."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from typing import Any

import torch

from jupyter_hpc.training import Run, World, distributed

EPOCHS = int(os.environ.get("EPOCHS", 3))
ROWS = int(os.environ.get("ROWS", 256))
BATCH = int(os.environ.get("BATCH", 8))
#: A step takes this long, so that an end comes between two of them.
PAUSE = float(os.environ.get("PAUSE", 0.0))
#: Seconds between two checkpoints.
EVERY = float(os.environ.get("EVERY", 0.3))
#: Where checkpoints go, if several jobs are to share them.
FOLDER = os.environ.get("FOLDER")


def digest(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return hashlib.sha256(value.detach().numpy().tobytes()).hexdigest()[:12]
    if isinstance(value, dict):
        return str({key: digest(each) for key, each in value.items()})
    return str([digest(each) for each in value] if isinstance(value, list | tuple) else value)


def whole(value: Any) -> Any:
    """A tensor of which each process may have a part."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def values_of(model: Any) -> list[float]:
    found: list[float] = []
    for each in model.parameters():
        found += whole(each.detach()).flatten().tolist()
    return found


def train(world: World) -> None:
    torch.manual_seed(1)
    model: Any = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Linear(16, 1))
    if "SHARDED" in os.environ:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (world.size,)))
    elif world.size > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    rows = [(n, torch.tensor([n / ROWS, 1.0])) for n in range(ROWS)]
    sampler = world.sampler(rows)
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH // world.size, sampler=sampler)
    with Run(model=model, optimizer=optimizer, every=EVERY, folder=FOLDER) as run:
        run.state.setdefault("seen", [])
        before = values_of(model)
        print("part begins at step", run.step, flush=True)
        for _ in run.epochs(EPOCHS):
            for indices, values in run.batches(loader):
                optimizer.zero_grad()
                noise = 0.0 if "PLAIN" in os.environ else random.random() + float(torch.rand(()))
                loss = (model(values) - values.sum(1, keepdim=True) + noise * 0.01).pow(2).mean()
                loss.backward()
                optimizer.step()
                run.state["seen"].append((indices.tolist(), loss.item()))
                time.sleep(PAUSE)
            run.log(loss=loss.item())
        result = {
            "seen": run.state["seen"],
            "weights": digest(values_of(model)),
            "optimizer": digest(
                [[*map(whole, each.values())] for each in optimizer.state.values()]
            ),
            "before": before,
            "values": values_of(model),
        }
    folder = os.environ["JUPYTER_HPC_OUTPUT"]
    with open(f"{folder}/result-{world.rank}.json", "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    random.seed(1)
    torch.set_num_threads(1)
    with distributed(every_rank_prints=True) as everybody:
        train(everybody)
    print("trained to the end", flush=True)
