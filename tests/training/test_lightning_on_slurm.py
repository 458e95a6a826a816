"""Lightning with the callback in parts on a real Slurm: each goes on at the batch of the last."""

from __future__ import annotations

import csv
import re
from functools import partial
from pathlib import Path

import pytest

from tests.batch.test_chains_on_slurm import Training, left
from tests.batch.test_on_slurm import User, alice, logs

__all__ = ["alice"]
pytestmark = [pytest.mark.faults]

#: Prints the samples of each batch; slow in its first parts, so that a limit ends them.
CELLS = [
    "import hashlib, os, time, torch, lightning as L\n"
    "from torchdata.stateful_dataloader import StatefulDataLoader\n"
    "from jupyter_hpc.training.lightning import RunCheckpoint\n"
    "EPOCHS, PAUSE, SLOW, RATE = 60, 0.5, 3, 0.1",
    "part = int(os.environ.get('SLURM_ARRAY_TASK_ID', 1))\n"
    "part += int(os.environ.get('SLURM_RESTART_COUNT', 0))\n"
    "class Model(L.LightningModule):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.layers = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))\n"
    "    def on_train_epoch_start(self):\n"
    "        print('begins', self.current_epoch, flush=True)\n"
    "    def training_step(self, batch, index):\n"
    "        indices, rows = batch\n"
    "        print('batch', self.global_rank, *indices.tolist(), flush=True)\n"
    "        time.sleep(PAUSE * (part <= SLOW))\n"
    "        loss = self.layers(rows).pow(2).mean()\n"
    "        self.log('loss', loss)\n"
    "        return loss\n"
    "    def configure_optimizers(self):\n"
    "        return torch.optim.SGD(self.parameters(), lr=RATE)",
    "L.seed_everything(1)\n"
    "data = torch.utils.data.TensorDataset(torch.arange(20), torch.randn(20, 4))\n"
    "loader = StatefulDataLoader(data, batch_size=4, shuffle=True)\n"
    "trainer = L.Trainer(max_epochs=EPOCHS, accelerator='cpu', enable_progress_bar=False,\n"
    "                    logger=False, callbacks=[RunCheckpoint()])\n"
    "model = Model()\n"
    "trainer.fit(model, loader, ckpt_path='last')\n"
    "weights = b''.join(each.detach().numpy().tobytes() for each in model.parameters())\n"
    "print('fitted', hashlib.sha256(weights).hexdigest(), flush=True)",
]
BATCHES = 60 * 5


def batches(text: str) -> list[str]:
    return re.findall(r"^batch 0 ([\d ]+)$", text, re.M)


def fitted(text: str) -> list[str]:
    return re.findall(r"^fitted (\w+)$", text, re.M)


def _trains(log: Path) -> bool:
    return log.exists() and len(batches(log.read_text(encoding="utf-8"))) > 6


class Chained(Training):
    """A job of CELLS."""

    def wait_until_part_trains(self, part: int) -> None:
        self.user.waiting(
            lambda: len(self.parts()) >= part and len(batches(self.parts()[part - 1])) >= 8, 400
        )


@pytest.mark.timeout(1800)
def test_three_real_time_limits_change_nothing(alice: User) -> None:
    alice.notebook("light.ipynb", CELLS)
    whole = Chained(alice, "light.ipynb", "--set", "PAUSE=0")
    chain = Chained(alice, "light.ipynb", "--time", "30", "--chain", "5")
    # In its limit each time anew.
    requeued = Chained(alice, "light.ipynb", "--requeue", "--set", "PAUSE=1.3")
    for part in (1, 2, 3):
        chain.wait_until_part_trains(part)
        chain.let_its_time_end(part)
    held_or_over = re.compile(r"(\S+/JobHeldUser\s*)*")
    alice.waiting(lambda: held_or_over.fullmatch(left(alice)), 1200)
    assert left(alice) == "", logs(requeued.run) + logs(chain.run)
    expected = batches(logs(whole.run))
    assert len(expected) == BATCHES and len(fitted(logs(whole.run))) == 1, logs(whole.run)
    for training in (chain, requeued):
        told = logs(training.run)
        *cut, last = training.parts()
        assert len(cut) >= 3, told
        assert all(text.count("nearly over") == 1 for text in cut), told
        assert "nearly over" not in last and (training.run / "output" / "DONE").exists(), told
        assert fitted(told) == fitted(logs(whole.run)), told
    assert batches(logs(chain.run)) == expected, logs(chain.run)
    assert not (chain.run / "logs" / f"{chain.job}_5.out").exists(), "the tail was cancelled"


@pytest.mark.timeout(900)
def test_a_sweep_of_chains_goes_on_run_by_run(alice: User) -> None:
    alice.notebook("light.ipynb", CELLS)
    swept = Chained(
        alice, "light.ipynb", "--time", "30", "--sweep", "RATE=0.1,0.01", "--chain", "3",
        "--set", "SLOW=2", "--set", "EPOCHS=20",
    )  # fmt: skip
    for run in (1, 2):
        path = swept.run / "logs" / f"{swept.job}_{run}.out"
        alice.waiting(partial(_trains, path), 300)
        alice.shell(["scancel", "--batch", "--signal=USR1", f"{swept.job}_{run}"])
    alice.wait_for_end(500)
    with open(swept.run / "output" / "runs.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == ["done", "done"], logs(swept.run)
    for run in (1, 2):
        text = (swept.run / "logs" / f"{swept.job}_{run}.out").read_text(encoding="utf-8")
        assert len(batches(text)) == 20 * 5 and len(fitted(text)) == 1, text
        assert text.count("job") > 1 and len(set(re.findall(r"^begins (\d+)$", text, re.M))) == 20
    first, second = (fitted((swept.run / "logs" / f"{swept.job}_{run}.out").read_text())
                     for run in (1, 2))  # fmt: skip
    assert first != second
