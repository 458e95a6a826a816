"""Lightning with the callback: what was ended and goes on equals what was left alone."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training.loops import Killed, digest, end, ended

pytestmark = [pytest.mark.usefixtures("lightning"), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
EPOCHS, BATCHES = 3, 6
STEPS = EPOCHS * BATCHES


#: Two processes, as Lightning starts them itself; one of them hears USR1.
TWO = """
import hashlib, os, signal, sys, torch, lightning as L
from torchdata.stateful_dataloader import StatefulDataLoader
from jupyter_hpc.training.lightning import RunCheckpoint

told, end_at = (0 if sys.argv[1] == "main" else 1), int(sys.argv[2])

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout(0.3))

    def training_step(self, batch, index):
        step = self.global_step + 1
        sys.stdout.write(f"batch {step} {self.global_rank} {batch[0].tolist()}\\n")
        sys.stdout.flush()
        if step == end_at and self.global_rank == told:
            os.kill(os.getpid(), signal.SIGUSR1)
        return self.layers(batch[1]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

L.seed_everything(1)
data = torch.utils.data.TensorDataset(torch.arange(48), torch.randn(48, 4))
loader = StatefulDataLoader(data, batch_size=4, shuffle=True)
trainer = L.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                    enable_progress_bar=False, callbacks=[RunCheckpoint(every=1000)])
model = Model()
trainer.fit(model, loader, ckpt_path="last")
weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
print("fitted", trainer.global_rank, hashlib.sha256(weights).hexdigest(), flush=True)
"""


def train(folder: Path, ends: Mapping[int, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Train, or go on, to the end or to one of `ends`: a step, or the validation after it (-step).
    Everything that must be the same.
    """
    import lightning
    import torch
    from lightning.pytorch.callbacks import EarlyStopping
    from torchdata.stateful_dataloader import StatefulDataLoader

    from jupyter_hpc.training.lightning import RunCheckpoint

    def end_at(place: int) -> None:
        if place in (ends or {}):
            end((ends or {})[place])

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.Dropout(0.4), torch.nn.Linear(8, 1)
            )
            self.seen: dict[str, list[Any]] = {"losses": [], "order": [], "validated": []}

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.layers(batch[1]).pow(2).mean() * (1 + random.random())
            self.seen["losses"].append(loss.item())
            self.seen["order"].append(batch[0].tolist())
            self.log("loss", loss)
            end_at(len(self.seen["losses"]))
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            if not self.trainer.sanity_checking:
                self.seen["validated"].append(self.current_epoch)
            end_at(-len(self.seen["losses"]))
            self.log("val_loss", self.layers(batch[1]).pow(2).mean())

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
            return {"optimizer": optimizer, "lr_scheduler": schedule, "monitor": "val_loss"}

        def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            checkpoint["seen"] = {name: list(each) for name, each in self.seen.items()}

        def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.seen = checkpoint["seen"]

    lightning.seed_everything(1, verbose=False)
    rows = torch.randn(BATCHES * 8, 4, generator=torch.Generator().manual_seed(7))
    data = torch.utils.data.TensorDataset(torch.arange(len(rows)), rows)
    made = options.pop("loader", StatefulDataLoader)
    ckpt_path = options.pop("ckpt_path", "last")
    loader = made(data, batch_size=8, shuffle=True)
    val = torch.utils.data.DataLoader(data, batch_size=24)
    model = Model()
    saving = RunCheckpoint(folder=folder, every=options.pop("every", 1000))
    trainer = lightning.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[saving, EarlyStopping("val_loss", patience=9)],
        default_root_dir=folder, **options,
    )  # fmt: skip
    trainer.fit(model, loader, val, ckpt_path=ckpt_path)
    return {
        **model.seen,
        "weights": digest(model.state_dict()),
        "optimizer": digest(trainer.optimizers[0].state_dict()),
        "random": random.random(),
        "id": saving.run.id,
    }


def in_parts(folder: Path, ends: list[tuple[int, Any]], **options: Any) -> dict[str, Any]:
    wanted = {signal.SIGUSR1: 85, signal.SIGTERM: 143, Killed: "killed"}
    for step, how in ends:
        with ended() as codes:
            train(folder, {step: how}, **options)
        assert codes == [wanted[how]], step
        assert not (folder / "DONE").exists()
    return train(folder, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, lightning: Any) -> dict[str, Any]:
    return train(tmp_path_factory.mktemp("whole") / "run")


def same(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name in ("order", "losses", "weights", "optimizer", "validated"):
        assert first[name] == second[name], name


#: In an epoch, at its last step, in a validation.
ENDS = [[3, 9, 14], [5, 6, 12], [-6, 8], [10, -12]]


@pytest.mark.parametrize("how", [signal.SIGUSR1, signal.SIGTERM, Killed], ids=["1", "15", "9"])
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_ended_anywhere_equals_uninterrupted(
    tmp_path: Path, whole: dict[str, Any], ends: list[int], how: Any
) -> None:
    every = 1e-6 if how is Killed else 1000
    same(in_parts(tmp_path / "run", [(end, how) for end in ends], every=every), whole)
    assert len(whole["order"]) == STEPS and (tmp_path / "run" / "DONE").exists()


def test_a_plain_loader_is_exact_from_the_end_of_an_epoch(
    tmp_path: Path, torch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = torch.utils.data.DataLoader
    first = train(tmp_path / "whole", loader=plain)
    ends: list[tuple[int, Any]] = [(6, signal.SIGUSR1), (-12, signal.SIGUSR1)]
    same(in_parts(tmp_path / "run", ends, loader=plain), first)
    assert "knows no position" not in capsys.readouterr().err
    in_parts(tmp_path / "middle", [(3, signal.SIGUSR1)], loader=plain)
    assert "a DataLoader knows no position" in capsys.readouterr().err


def test_the_order_of_a_distributed_sampler_is_that_of_its_epoch(
    tmp_path: Path, torch: Any
) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def made(data: Any, batch_size: int, shuffle: bool) -> Any:
        sampler = torch.utils.data.DistributedSampler(data, 1, 0, shuffle=shuffle)
        return StatefulDataLoader(data, batch_size=batch_size, sampler=sampler)

    first = train(tmp_path / "whole", loader=made)
    ends: list[tuple[int, Any]] = [(3, signal.SIGUSR1), (9, signal.SIGUSR1)]
    same(in_parts(tmp_path / "run", ends, loader=made), first)


def test_a_validation_that_outlasts_the_time_is_done_again(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    with ended() as codes:
        train(tmp_path / "run", {6: signal.SIGUSR1, -6: Killed}, every=1e-6)
    assert codes == ["killed"]
    same(train(tmp_path / "run"), whole)


def test_a_damaged_newest_checkpoint_is_passed_over(
    tmp_path: Path, whole: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with ended():
        train(folder, {9: Killed}, every=1e-6)
    names = sorted(path.name for path in folder.glob("*.ckpt"))
    assert names == ["step-000000007-00001.ckpt", "step-000000008-00001.ckpt"], "the last two"
    data = bytearray((folder / names[1]).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / names[1]).write_bytes(data)
    same(train(folder), whole)
    assert "passes over the checkpoint" in capsys.readouterr().err


def test_a_full_disk_leaves_the_checkpoint_before_whole(
    tmp_path: Path,
    whole: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import lightning

    folder = tmp_path / "run"
    with ended():
        train(folder, {8: signal.SIGUSR1})
    with monkeypatch.context() as patch:

        def full(self: Any, path: str, *_: Any) -> None:
            Path(path).write_bytes(b"half of it")
            raise OSError(28, "No space left on device")

        patch.setattr(lightning.Trainer, "save_checkpoint", full)
        with ended() as codes:
            train(folder, {10: signal.SIGUSR1})
    assert codes == [85] and not list(folder.glob(".run/*.drafts/*"))
    assert "was not written, the one before it is kept" in capsys.readouterr().err
    same(train(folder), whole)


def test_what_the_run_reached_and_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("WANDB_RUN_ID", "WANDB_RESUME", "COMET_EXPERIMENT_KEY"):
        monkeypatch.setenv(name, "")  # given back after the test
        monkeypatch.delenv(name)
    output = tmp_path / "output"
    monkeypatch.setenv("JUPYTER_HPC_OUTPUT", str(output))
    monkeypatch.setenv("JUPYTER_HPC_CHECKPOINTS", str(tmp_path / "run"))
    from jupyter_hpc.training.lightning import RunCheckpoint

    first = RunCheckpoint().run
    assert first.folder == tmp_path / "run" and os.environ["WANDB_RUN_ID"] == first.id != ""
    first.close()
    found = in_parts(tmp_path / "run", [(8, signal.SIGUSR1), (13, Killed)])
    assert found["id"] == first.id
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [(row["epoch"], row["step"]) for row in rows] == [(0, 6), (1, 12), (2, 18)], "none twice"
    last = json.loads((output / "metrics.json").read_text())
    assert last["epoch"] == 2 and last["loss"] == rows[-1]["loss"] and "val_loss" in last
    assert "epoch 2 loss:" in capsys.readouterr().out.replace("val_loss", "")


def test_a_training_that_is_over_says_so_again(tmp_path: Path, whole: dict[str, Any]) -> None:
    train(tmp_path / "run")
    (tmp_path / "run" / "DONE").unlink()  # as if it was killed just before
    same(train(tmp_path / "run"), whole)
    assert (tmp_path / "run" / "DONE").exists()


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What scontrol is asked for, in a job with one task."""
    told = tmp_path / "told"
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {told}\n')
    scontrol.chmod(0o755)
    for name, value in {
        "PATH": f"{scontrol.parent}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0", "SLURM_NODELIST": "localhost", "MASTER_PORT": "29999",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    return told


def test_lightnings_own_requeue_is_left_alone(
    tmp_path: Path, whole: dict[str, Any], told: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with ended() as codes:
        train(folder, {4: signal.SIGUSR1})
    assert codes == [85] and told.read_text() == "requeue 7\n"
    assert [path.name for path in folder.glob("hpc_ckpt_*")] == ["hpc_ckpt_1.ckpt"]
    with ended():
        train(folder, {5: Killed}, ckpt_path=None)
    assert "hpc_ckpt_1.ckpt, not from" in capsys.readouterr().err
    same(train(folder), whole)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, "each gives back what it found"


def test_what_lightning_saved_itself_is_better_than_nothing(tmp_path: Path) -> None:
    """It was ended by its own requeue before the step was over."""
    from jupyter_hpc.training.lightning import RunCheckpoint

    assert RunCheckpoint(folder=tmp_path).ckpt_path is None
    for number in (9, 10):
        (tmp_path / f"hpc_ckpt_{number}.ckpt").touch()
    assert RunCheckpoint(folder=tmp_path).ckpt_path == str(tmp_path / "hpc_ckpt_10.ckpt")
    with ended():
        train(tmp_path / "run", {4: signal.SIGUSR1})
    (tmp_path / "run" / "hpc_ckpt_1.ckpt").touch()
    ours = tmp_path / "run" / "step-000000004-00000.ckpt"
    assert RunCheckpoint(folder=tmp_path / "run").ckpt_path == str(ours)


def test_after_the_last_step_there_is_no_more_to_do(tmp_path: Path, torch: Any) -> None:
    plain = torch.utils.data.DataLoader
    assert len(train(tmp_path / "run", {STEPS: signal.SIGUSR1}, loader=plain)["order"]) == STEPS
    assert (tmp_path / "run" / "DONE").exists()


def test_a_fit_that_names_no_checkpoint_goes_on_as_well(
    tmp_path: Path, whole: dict[str, Any]
) -> None:
    with ended():
        train(tmp_path, {4: signal.SIGUSR1})
    same(train(tmp_path, ckpt_path=None), whole)


@pytest.mark.faults
@pytest.mark.parametrize("hears", ["main", "other"])
def test_several_processes_end_at_the_same_step(tmp_path: Path, lightning: Any, hears: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(TWO, encoding="utf-8")

    def part(end_at: int) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, str(script), hears, str(end_at)], capture_output=True, text=True,
            timeout=200, cwd=tmp_path, env={
                **os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]),
                "JUPYTER_HPC_CHECKPOINTS": str(tmp_path / folder),
            },
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def batches(text: str) -> list[str]:
        return sorted(re.findall(r"^batch .*", text, re.M))

    folder = "whole"
    code, whole = part(-1)
    assert code == 0 and len(batches(whole)) == 2 * 12, whole
    folder = "parts"
    for end_at, expected in ((3, 85), (9, 85), (-1, 0)):
        code, text = part(end_at)
        assert code == expected, text


def test_the_callback_says_what_is_missing() -> None:
    code = "import jupyter_hpc.training.lightning"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "needs Lightning, which" in done.stderr and "pip install lightning" in done.stderr
