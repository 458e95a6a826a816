"""A small training that uses everything that is random, and can be ended at any step."""

from __future__ import annotations

import hashlib
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_hpc.training import Run

EPOCHS, ROWS, BATCH = 3, 44, 8
STEPS = EPOCHS * 6


class Killed(BaseException):
    """Plays KILL: nothing of ours runs after it but what a dead process would have done."""


class Noisy:
    """Rows with random changes, drawn from all three generators as people do."""

    def __init__(self) -> None:
        import torch

        self.rows = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(7))

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        import torch

        noise = torch.randn(4) * 0.1 + random.random() * 0.1 + float(np.random.rand()) * 0.1
        return index, self.rows[index] + noise


def loader(**options: Any) -> Any:
    import torch

    options = {"batch_size": BATCH, "shuffle": True, **options}
    return torch.utils.data.DataLoader(Noisy(), **options)


def train(folder: Path, end_at: int = -1, how: Any = None, **options: Any) -> dict[str, Any]:
    """Train, or go on, to the end or to `end_at`; everything that must be the same."""
    import numpy as np
    import torch

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.4), torch.nn.Linear(8, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    data = options.pop("loader", loader)()
    every = options.pop("every", 0.02)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    with Run(**parts, folder=folder, every=every, **options) as run:
        run.state.setdefault("losses", [])
        run.state.setdefault("order", [])
        for _ in run.epochs(EPOCHS):
            for indices, rows in run.batches(data):
                optimizer.zero_grad()
                loss = model(rows).pow(2).mean() * (1 + 0.1 * float(np.random.rand()))
                loss.backward()
                optimizer.step()
                run.state["losses"].append(loss.item())
                run.state["order"].append(indices.tolist())
                if run.step + 1 == end_at:
                    end(how)
            scheduler.step()
            run.log(loss=loss.item(), rate=scheduler.get_last_lr()[0])
    return {
        "losses": run.state["losses"],
        "order": run.state["order"],
        "weights": digest(model.state_dict()),
        "optimizer": digest(optimizer.state_dict()),
        "random": random.random(),
        "id": run.id,
    }


def end(how: Any) -> None:
    if how is Killed:
        raise Killed
    os.kill(os.getpid(), how)


def digest(value: Any) -> str:
    """All bits of a state."""
    import torch

    if isinstance(value, torch.Tensor):
        return hashlib.sha256(value.detach().numpy().tobytes()).hexdigest()
    if isinstance(value, dict):
        return repr([(key, digest(each)) for key, each in value.items()])
    if isinstance(value, list | tuple):
        return repr([digest(each) for each in value])
    return repr(value)


@contextmanager
def ended() -> Iterator[list[Any]]:
    """Catch the end of a part; the codes of those that were asked for."""
    codes: list[Any] = []
    try:
        yield codes
    except SystemExit as error:
        codes.append(error.code)
    except Killed:
        codes.append("killed")


def in_parts(folder: Path, ends: list[tuple[int, Any]], **options: Any) -> dict[str, Any]:
    """A run that is ended at each of these steps, then left alone."""
    wanted = {signal.SIGUSR1: 85, signal.SIGTERM: 143, Killed: "killed"}
    for step, how in ends:
        with ended() as codes:
            done = train(folder, step, how, **options)
            # At the last step there is no more to do.
            assert step >= STEPS or how is not Killed
            return done
        assert codes == [wanted[how]]
        assert not (folder / "DONE").exists()
    return train(folder, **options)
