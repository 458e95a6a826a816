"""Accelerate and Ignite as the documentation shows them: ended and gone on equals left alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.training.loops import Killed, digest, end, ended
from tests.training.recipes import run_recipe

pytestmark = [pytest.mark.usefixtures("frameworks"), pytest.mark.timeout(400)]

EPOCHS, BATCHES, BATCH = 3, 5, 64


def train(heading: str, end_at: int = 0, how: Any = None) -> dict[str, Any]:
    """Run a recipe to its end or to step `end_at` of this part; what it trained on and became."""
    import torch

    torch.manual_seed(1)
    rows = torch.randn(BATCHES * BATCH, 3, generator=torch.Generator().manual_seed(7))
    seen: list[float] = []

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))

        def forward(self, batch: Any) -> Any:
            seen.append(float(batch.sum()))
            if len(seen) == end_at:
                end(how)
            return self.layers(batch)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(rows, batch_size=BATCH, shuffle=True)

    def train_step(engine: Any, batch: Any) -> float:
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    names = run_recipe(
        heading, model=model, optimizer=optimizer, loader=loader, train_step=train_step,
        data=rows, EPOCHS=EPOCHS,
    )  # fmt: skip
    return {"seen": seen, "weights": digest(names["model"].state_dict()), "id": names["run"].id}


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(folder))
    return folder


def test_accelerate_ended_and_gone_on_equals_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(tmp_path / "whole", monkeypatch)
    whole = train("Accelerate")
    assert len(whole["seen"]) == EPOCHS * BATCHES
    folder = use(tmp_path / "parts", monkeypatch)
    seen: list[float] = []
    for steps, how, code in ((3, signal.SIGUSR1, 85), (4, signal.SIGTERM, 143)):
        with ended() as codes:
            train("Accelerate", steps, how)
        assert codes == [code] and not (folder / "DONE").exists()
        seen += whole["seen"][len(seen) : len(seen) + steps]
    with ended() as codes:
        train("Accelerate", 2, Killed)
    assert codes == ["killed"]
    last = train("Accelerate")
    assert seen + last["seen"] == whole["seen"]
    assert last["weights"] == whole["weights"]
    assert (folder / "DONE").exists() and (folder / "metrics.json").exists()


def test_ignite_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tmp_path / "whole", monkeypatch)
    whole = train("Ignite")
    folder = use(tmp_path / "parts", monkeypatch)
    for steps, how, code in ((BATCHES, signal.SIGUSR1, 85), (BATCHES, signal.SIGTERM, 143)):
        with ended() as codes:
            train("Ignite", steps, how)
        assert codes == [code] and not (folder / "DONE").exists()
    last = train("Ignite")
    assert last["seen"] == whole["seen"][2 * BATCHES :] and last["weights"] == whole["weights"]
    assert (folder / "DONE").exists()
    use(tmp_path / "middle", monkeypatch)
    with ended() as codes:
        train("Ignite", 7, signal.SIGUSR1)
    assert codes == [85] and len(train("Ignite")["seen"]) == EPOCHS * BATCHES - 7
