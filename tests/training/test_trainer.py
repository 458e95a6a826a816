"""Hugging Face's Trainer as the documentation shows it: ended and gone on equals left alone."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.training.loops import Killed, digest, end, ended
from tests.training.recipes import run_recipe

pytestmark = [pytest.mark.usefixtures("frameworks"), pytest.mark.timeout(400)]

EPOCHS, ROWS = 3, 40
STEPS = EPOCHS * ROWS // 8


def train(folder: Path, end_at: int = 0, how: Any = None) -> dict[str, Any]:
    """A tiny model from its configuration; nothing is fetched."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(1)
    seen: list[int] = []

    class Model(LlamaForCausalLM):  # type: ignore[misc]
        def forward(self, input_ids: Any, labels: Any = None, **words: Any) -> Any:
            seen.append(int(input_ids.sum()))
            if len(seen) == end_at:
                end(how)
            return super().forward(input_ids, labels=labels, **words)

    model = Model(
        LlamaConfig(
            vocab_size=64, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, attention_dropout=0.1,
        )
    )  # fmt: skip
    drawn = torch.randint(0, 64, (ROWS, 6), generator=torch.Generator().manual_seed(7))
    data = [{"input_ids": row, "labels": row} for row in drawn]
    names = run_recipe("Hugging Face Trainer", model=model, data=data, EPOCHS=EPOCHS)
    return {"seen": seen, "weights": digest(names["model"].state_dict())}


def test_ended_and_gone_on_equals_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole_folder, folder = tmp_path / "whole", tmp_path / "parts"
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(whole_folder))
    whole = train(whole_folder)
    assert len(whole["seen"]) == STEPS
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(folder))
    monkeypatch.setenv("JUPYTER_HPC_OUTPUT", str(tmp_path / "output"))
    seen: list[int] = []
    for steps, how, code in ((3, signal.SIGUSR1, 85), (4, signal.SIGTERM, 143)):
        with ended() as codes:
            train(folder, steps, how)
        assert codes == [code] and not (folder / "DONE").exists()
        seen += whole["seen"][len(seen) : len(seen) + steps]
    # What the Trainer was writing when it was killed has a name, and is not whole.
    cut = folder / "checkpoint-9"
    cut.mkdir()
    (cut / "trainer_state.json").write_text("{", encoding="utf-8")
    with ended() as codes:
        train(folder, 2, Killed)
    assert codes == ["killed"]
    last = train(folder)
    assert seen + last["seen"] == whole["seen"]
    assert last["weights"] == whole["weights"]
    assert (folder / "DONE").exists()
    assert json.loads((tmp_path / "output" / "metrics.json").read_text())["step"] == STEPS
    assert len(list(folder.glob("checkpoint-*"))) <= 3
    # A newest one that is damaged is passed over.
    newest = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    with open(newest / "model.safetensors", "ab") as file:
        file.write(b"x")
    again = train(folder)
    assert 0 < len(again["seen"]) < STEPS and again["weights"] == whole["weights"]
    assert "passes over the checkpoint" in capsys.readouterr().err
