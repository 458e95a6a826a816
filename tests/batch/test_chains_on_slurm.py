"""Runs in several parts on a real Slurm: they go on, or are held where they get nowhere."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.batch.test_on_slurm import SMALL, User, alice, logs
from tests.cluster.layout import ENV_PATH
from tests.tools import ROOT

__all__ = ["alice"]

#: Goes on from its checkpoint, one step in each part, until there are STEPS.
STEPPING = """
import os, sys
STEPS, SAVE = 3, 1
path = os.environ['JUPYTER_HPC_CHECKPOINTS'] + '/step'
step = int(open(path).read()) if os.path.exists(path) else 0
print('from', step, flush=True)
if SAVE:
    open(path, 'w').write(str(step + 1))
sys.exit(0 if step + 1 >= STEPS else 85)
"""


@pytest.mark.timeout(240)
def test_a_requeue_without_progress_is_held_and_a_sweep_of_chains_goes_on(alice: User) -> None:
    alice.notebook("step.ipynb", [STEPPING])
    stuck, stuck_run = alice.submit("step.ipynb", *SMALL, "--requeue", "--set", "SAVE=0")
    swept, swept_run = alice.submit("step.ipynb", *SMALL, "--sweep", "STEPS=2,3", "--chain", "2")
    chain, chain_run = alice.submit("step.ipynb", *SMALL, "--chain", "4", "--set", "SAVE=0")

    def states() -> dict[str, str]:
        asked = ["squeue", "--noheader", "--array", "--format=%i %T/%r"]
        lines = alice.cluster.run("login1", asked).stdout.splitlines()
        return dict(line.split(" ", 1) for line in lines)

    held = {stuck, f"{chain}_3", f"{chain}_4"}
    alice.waiting(
        lambda: (
            {name for name, state in states().items() if "JobHeldUser" in state} == held
            and set(states()) == held
        ),
        150,
    )
    for run, rest in ((stuck_run, stuck), (chain_run, f"'{chain}_[3-4]'")):
        assert f"scontrol release {rest}" in logs(run) and logs(run).count("from 0") == 2
    rows = (swept_run / "output" / "runs.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[1:4] for row in rows[1:]] == [
        *(["2", "done", "0"], ["3", "failed", "85"]),
    ], logs(swept_run)
    assert re.findall(r"^from \d", logs(swept_run), re.M) == ["from 0", "from 1"] * 2
    assert "Part 2 was the last one" in logs(swept_run)
    words = [f"{ENV_PATH}/bin/jupyter-hpc", "results", chain]
    assert alice.cluster.run("login1", words, user="alice", cwd=alice.folder).returncode == 0
    # Whoever lets it go on means it.
    alice.shell(["scontrol", "release", f"{chain}_[3-4]"])
    alice.waiting(lambda: logs(chain_run).count("from 0") >= 3)
    listed = json.loads(alice.hpc("jobs", "--json"))
    own = [row for row in listed if row["id"].partition("_")[0] in (stuck, swept, chain)]
    failed = [row["id"] for row in own if row["state"] == "FAILED"]
    assert own
    assert failed == [], "a part that asks for more is not shown as failed"


@pytest.mark.timeout(120)
def test_the_parts_that_an_end_cancels_are_explained(alice: User) -> None:
    alice.notebook("step.ipynb", [STEPPING])
    words = ["submit", "step.ipynb", *SMALL, "--chain", "3", "--set", "STEPS=1", "--wait"]
    done = alice.cluster.run(
        "login1",
        [f"{ENV_PATH}/bin/jupyter-hpc", *words],
        user="alice",
        cwd=alice.folder,
        timeout=90,
    )
    said = "Part 1 ended well; the later ones, up to part 3, were cancelled."
    assert done.returncode == 0 and said in done.stderr, done.stdout + done.stderr
    job = done.stdout.strip()
    alice.waiting(lambda: alice.hpc("jobs").count(said) >= 1, 30)
    assert job.isdigit()


LIGHTNING = ("torch==2.13.0", "lightning==2.6.6")
#: A model that prints its epochs, each a second long.
LIGHT = [
    "import time, torch, lightning as L\nEPOCHS = 200",
    "class Model(L.LightningModule):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.layer = torch.nn.Linear(4, 1)\n"
    "    def training_step(self, batch, index):\n"
    "        return self.layer(batch[0]).pow(2).mean()\n"
    "    def on_train_epoch_start(self):\n"
    "        print('epoch', self.current_epoch, flush=True)\n"
    "        time.sleep(1)\n"
    "    def configure_optimizers(self):\n"
    "        return torch.optim.SGD(self.parameters(), lr=0.1)",
    "rows = torch.utils.data.TensorDataset(torch.randn(8, 4))\n"
    "trainer = L.Trainer(max_epochs=EPOCHS, accelerator='cpu', enable_progress_bar=False,\n"
    "                    logger=False, enable_checkpointing=False)\n"
    "trainer.fit(Model(), torch.utils.data.DataLoader(rows, batch_size=8))\nprint('fitted')",
]


def lightning() -> Path:
    """A folder with torch and Lightning for the system's Python, fetched once (a gigabyte)."""
    cache = ROOT / ".cache"
    folder = cache / "lightning-2.6.6"
    cache.mkdir(exist_ok=True)
    with open(cache / "lightning.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "install"]
            done = subprocess.run(
                [*pip, "--quiet", "--target", str(fresh), *LIGHTNING],
                capture_output=True, text=True, timeout=600,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            fresh.rename(folder)
    return folder


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_a_lightning_chain_of_three_goes_on_over_real_time_limits(alice: User) -> None:
    site = alice.path / "site"
    if subprocess.run(["cp", "-al", str(lightning()), str(site)]).returncode:
        subprocess.run(["cp", "-a", str(lightning()), str(site)], check=True)
    alice.notebook("light.ipynb", LIGHT)
    # The warning is two minutes by default, which is all that a part of this test has.
    settings = ["env", "SBATCH_SIGNAL=B:USR1@30", f"PYTHONPATH={alice.folder}/site"]
    words = ["--time", "2", "--cpus", "1", "--mem", "2G", "--gpus", "0", "--chain", "3"]
    submitted = alice.shell(
        [*settings, f"{ENV_PATH}/bin/jupyter-hpc", "submit", "light.ipynb", *words, "--json"]
    )
    folder = Path(json.loads(submitted)["run_dir"]).relative_to("/home/alice")
    run = alice.cluster.home("alice") / folder
    alice.wait_for_end(900)
    parts = [file.read_text() for file in sorted((run / "logs").glob("*.out"))]
    epochs = [[int(number) for number in re.findall(r"^epoch (\d+)", text, re.M)] for text in parts]
    assert len(parts) == 3 and epochs[0][0] == 0, parts
    for earlier, later in pairwise(epochs):
        assert 0 < later[0] <= earlier[-1] + 1 and later[0] > earlier[0], epochs
    assert epochs[-1][-1] == 199 and "fitted" in parts[-1]
    assert (run / "output" / "DONE").exists()
