"""The number of parts of a chain from the epochs of a trial run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_hpc.batch.preflight.long_runs import default_until, never_resumes
from jupyter_hpc.batch.submit.trial import computed_parts, epochs_of
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import converted

DAY = 24 * 3600


def past_run(folder: Path, name: str, seconds: int, log: str) -> None:
    for part in ("output", "logs"):
        (folder / name / part).mkdir(parents=True)
    state = {"code": 0, "seconds": seconds}
    (folder / name / "output" / "state.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / name / "logs" / "5.out").write_text(log, encoding="utf-8")


@pytest.mark.parametrize(
    ("epochs", "seconds", "settings", "parts"),
    [
        (10, 7200, {}, 3),  # 120 a day, 300 in all
        (10, 7200, {"EPOCHS": 361}, 4),
        (10, 7200, {"EPOCHS": 120}, None),
    ],
)
async def test_parts_are_all_epochs_over_those_of_a_unit(
    tmp_path: Path,
    runner: LocalRunner,
    epochs: int,
    seconds: int,
    settings: dict[str, int],
    parts: int | None,
) -> None:
    conversion = converted(tmp_path / "s", ["EPOCHS = 300", "print(EPOCHS)"])
    log = "".join(f"Epoch {n}/300 loss: 0.1\n" for n in range(1, epochs + 1))
    past_run(tmp_path / "runs", "a", seconds, log)
    new = str(tmp_path / "runs" / "b")
    assert await computed_parts(DAY, conversion, settings, new, runner) == parts


async def test_what_cannot_be_computed_is_said(tmp_path: Path, runner: LocalRunner) -> None:
    conversion = converted(tmp_path / "s", ["EPOCHS = 300", "print(EPOCHS)"])
    new = str(tmp_path / "runs" / "b")
    with pytest.raises(UsageError, match="No run in"):
        await computed_parts(DAY, conversion, {}, new, runner)
    past_run(tmp_path / "runs", "a", 2 * DAY, "epoch 1\n")
    with pytest.raises(UsageError, match="longer than one part"):
        await computed_parts(DAY, conversion, {}, new, runner)
    without = converted(tmp_path / "t", ["print(1)"])
    with pytest.raises(UsageError, match="no parameter for its epochs"):
        await computed_parts(DAY * 10, without, {}, new, runner)


@pytest.mark.parametrize(
    ("code", "until", "stuck"),
    [
        ("for epoch in range(3):\n    train()", "exit", True),
        ("import torch\ntorch.save(model, 'last.pt')", "exit", True),
        ("import os\nif os.path.exists('s.pt'):\n    s = torch.load('s.pt')", "exit", False),
        ("d = os.environ['JUPYTER_HPC_CHECKPOINTS']\nopen(d + '/DONE', 'w')", "done", False),
        ("import lightning as L\nL.Trainer().fit(model)", "exit", False),
        ("trainer.train(resume_from_checkpoint=True)", "exit", False),
        ("from jupyter_hpc.training import Run\nwith Run() as run: pass", "done", False),
        ("import jupyter_hpc.training", "exit", True),  # its helpers save nothing
        ("from jupyter_hpc import training\ntraining.Run()", "done", False),
        ("from jupyter_hpc import errors", "exit", True),
        ("not python (", "exit", False),
    ],
)
def test_what_a_notebook_is_seen_to_do(code: str, until: str, stuck: bool) -> None:
    assert default_until(code) == until
    assert never_resumes(code) is stuck


@pytest.mark.parametrize(
    ("cells", "name", "epochs"),
    [
        (["import lightning as L\nL.Trainer(max_epochs=90).fit(model)"], "max_epochs", 90),
        (["a = TrainingArguments('out', num_train_epochs=3)"], "num_train_epochs", 3),
        (["class Config:\n    max_epoch = 7\nprint(Config.max_epoch)"], "max_epoch", 7),
        (["epochs = 2\nprint(epochs)", "epochs = 20\nprint(epochs)"], "epochs.cell2", 20),
        (["for epoch in range(1, 31):\n    print(epoch)"], "epochs", 30),
    ],
)
def test_how_many_epochs_a_notebook_has(
    tmp_path: Path, cells: list[str], name: str, epochs: int
) -> None:
    assert epochs_of(converted(tmp_path / "s", cells), {}) == (name, epochs)
    assert epochs_of(converted(tmp_path / "t", cells), {name: 5})[1] == max(5, 2 * (epochs == 20))


def test_a_counter_is_no_number_of_epochs(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        epochs_of(converted(tmp_path / "s", ["epoch = 3\nprint(epoch)"]), {})
