"""Runs in several parts on a real Slurm: they go on, or are held where they get nowhere."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.batch.test_on_slurm import SMALL, User, alice, logs
from tests.batch.torch_site import lightning_site
from tests.cluster.layout import ENV_PATH

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
        *(["2", "done", "0"], ["3", "stopped", "85"]),
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
    words = ["submit", "step.ipynb", *SMALL, "--chain", "2", "--set", "STEPS=3", "--wait"]
    argv = [f"{ENV_PATH}/bin/jupyter-hpc", *words]
    done = alice.cluster.run("login1", argv, user="alice", cwd=alice.folder, timeout=90)
    assert done.returncode == 85, done.stdout + done.stderr
    assert "Part 2 was the last one, and the program is not done." in done.stderr
    # Without its note the run is found where Slurm says that it works.
    used = done.stdout.strip()
    alice.shell(["sh", "-c", 'rm "$HOME/.local/state/jupyter-hpc/runs/$1"', "sh", used])
    assert "from 1" in alice.hpc("log", used)


#: A share of the work in each part, as a script.
UNIT = """
import os
folder = os.environ['JUPYTER_HPC_CHECKPOINTS']
path = folder + '/unit.pt'
with open(path, 'a') as file:
    file.write('u')
print('unit', os.path.getsize(path), flush=True)
"""


@pytest.mark.timeout(240)
def test_parts_of_scripts_a_swept_requeue_and_what_waits_for_a_chain(alice: User) -> None:
    alice.notebook("step.ipynb", [STEPPING])
    alice.notebook("predict.ipynb", ["print('predicted')"])
    alice.write("train.py", UNIT)
    alice.write("clean.sh", "echo cleaned\n")
    scripts = ["train.py", "clean.sh", *SMALL, "--chain", "2"]
    units, units_run = alice.submit(*scripts, "--until", "all")
    alice.write("stop.py", f"{UNIT}if os.path.getsize(path) == 2: open(folder + '/DONE', 'w')\n")
    _, done_run = alice.submit("stop.py", *SMALL, "--chain", "3", "--until", "done")
    early, _ = alice.submit("step.ipynb", *SMALL, "--chain", "3", "--set", "STEPS=1")
    used, _ = alice.submit("step.ipynb", *SMALL, "--chain", "2", "--set", "STEPS=3")
    swept, swept_run = alice.submit("step.ipynb", *SMALL, "--sweep", "STEPS=1,2", "--requeue")
    both = ["--after", units, "--after", early]
    good, good_run = alice.submit("predict.ipynb", *SMALL, *both)
    bad, bad_run = alice.submit("predict.ipynb", *SMALL, "--after", used)
    alice.wait_for_end(200)
    assert re.findall(r"^(?:unit \d|cleaned)", logs(units_run), re.M) == [
        *("unit 1", "cleaned", "unit 2", "cleaned"),
    ], logs(units_run)
    assert (units_run / "output" / "DONE").exists()
    assert re.findall(r"^unit \d", logs(done_run), re.M) == ["unit 1", "unit 2"], logs(done_run)
    assert "Part 2 ended well; the later ones, up to part 3, were cancelled." in logs(done_run)
    rows = (swept_run / "output" / "runs.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[1:4] for row in rows[1:]] == [["1", "done", "0"], ["2", "done", "0"]]
    assert sorted(re.findall(r"^from \d", logs(swept_run), re.M)) == ["from 0", "from 0", "from 1"]
    assert "predicted" in logs(good_run), "the tail that a chain cancels is no failure"
    assert "predicted" not in logs(bad_run)
    said = f"not started: job {used}, which it waits for, is not done. Part 2 was the last one"
    assert said in logs(bad_run), logs(bad_run)
    listed = alice.waiting(
        lambda: {
            row["id"]: row["ending"]
            for row in json.loads(alice.hpc("jobs", "--json"))
            if row["id"] == bad and row["ending"]
        },
        30,
    )
    assert said[:30].split(": ")[1] in listed[bad] and swept and good


#: A model that prints its epochs; those of the first two parts are slow.
LIGHT = [
    "import os, time, torch, lightning as L\nEPOCHS = 800",
    "part = int(os.environ.get('SLURM_ARRAY_TASK_ID', 1))\n"
    "part += int(os.environ.get('SLURM_RESTART_COUNT', 0))\n"
    "class Model(L.LightningModule):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.layer = torch.nn.Linear(4, 1)\n"
    "    def training_step(self, batch, index):\n"
    "        return self.layer(batch[0]).pow(2).mean()\n"
    "    def on_train_epoch_start(self):\n"
    "        print('epoch', self.current_epoch, flush=True)\n"
    "        time.sleep(0.5 * (part < 3))\n"
    "    def configure_optimizers(self):\n"
    "        return torch.optim.SGD(self.parameters(), lr=0.1)",
    "rows = torch.utils.data.TensorDataset(torch.randn(8, 4))\n"
    "trainer = L.Trainer(max_epochs=EPOCHS, accelerator='cpu', enable_progress_bar=False,\n"
    "                    logger=False, enable_checkpointing=False)\n"
    "trainer.fit(Model(), torch.utils.data.DataLoader(rows, batch_size=8))\nprint('fitted')",
]


class Training:
    """A job of LIGHT."""

    def __init__(self, user: User, notebook: str, *words: str) -> None:
        settings = ["env", f"PYTHONPATH={lightning_site(user)}", f"{ENV_PATH}/bin/jupyter-hpc"]
        asked = ["--time", "4", "--cpus", "1", "--mem", "2G", "--gpus", "0", *words, "--json"]
        submitted = json.loads(user.shell([*settings, "submit", notebook, *asked]))
        folder = Path(submitted["run_dir"]).relative_to("/home/alice")
        self.user = user
        self.job, self.run = submitted["job_id"], user.cluster.home("alice") / folder

    def parts(self) -> list[str]:
        """The log of each part."""
        return re.split(r"^\[jupyter-hpc\] job ", logs(self.run), flags=re.M)[1:]

    def epochs(self) -> list[list[int]]:
        """The epochs that were begun in each part, in their order."""
        found = [re.findall(r"^epoch (\d+)", text, re.M) for text in self.parts()]
        return [[int(number) for number in numbers] for numbers in found]

    def wait_until_part_trains(self, part: int) -> None:
        self.user.waiting(lambda: len(self.epochs()) >= part and len(self.epochs()[-1]) >= 3, 400)

    def let_its_time_end(self, part: int) -> None:
        """Shorten the time limit to what Slurm warns of at its next look, and then enforces."""
        job = f"{self.job}_{part}"
        asked = ["squeue", "--noheader", "--format=%M", f"--jobs={job}"]
        *hours, minutes, _ = map(int, self.user.shell(asked).strip().split(":"))
        limit = 60 * sum(hours) + minutes + 2
        self.user.shell(["scontrol", "update", f"JobId={job}", f"TimeLimit={limit}"])


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_lightning_goes_on_over_real_time_limits(alice: User) -> None:
    # Two at once in one folder, where each would go on from the other's checkpoint.
    usual = LIGHT[2].replace(",\n                    logger=False, enable_checkpointing=False", "")
    alice.notebook("bare.ipynb", LIGHT)
    alice.notebook("usual.ipynb", [*LIGHT[:2], usual])  # with the checkpoints of each epoch
    chain = Training(alice, "bare.ipynb", "--time", "30", "--chain", "3")
    requeued = Training(alice, "usual.ipynb", "--requeue")  # in its limit each time anew
    for part in (1, 2):
        chain.wait_until_part_trains(part)
        chain.let_its_time_end(part)
    held_or_over = re.compile(r"(\S+/JobHeldUser\s*)*")
    alice.waiting(lambda: held_or_over.fullmatch(left(alice)), 900)
    assert left(alice) == "", logs(requeued.run) + logs(chain.run)
    for training in (chain, requeued):
        epochs = training.epochs()
        told = "\n".join(line for line in logs(training.run).splitlines() if line[:6] != "epoch ")
        assert len(epochs) >= 3 and epochs[0][0] == 0, told
        for earlier, later in pairwise(epochs):
            assert earlier[0] < later[0] <= earlier[-1] + 1, told
        assert epochs[-1][-1] == 799 and "fitted" in training.parts()[-1], told
        *ended, last = [text.count("nearly over") for text in training.parts()]
        assert set(ended) == {1} and last == 0, told
        assert (training.run / "output" / "DONE").exists(), told


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_lightning_that_saves_nothing_is_held(alice: User) -> None:
    # Lightning's own way to save at the warning is off, and the program ends without a checkpoint.
    cells = [
        "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(85))\n"
        f"from lightning.pytorch.plugins.environments import SLURMEnvironment\n{LIGHT[0]}",
        LIGHT[1],
        LIGHT[2].replace("logger=", "plugins=[SLURMEnvironment(auto_requeue=False)], logger="),
    ]
    alice.notebook("stuck.ipynb", cells)
    stuck = Training(alice, "stuck.ipynb", "--requeue")
    for part in (1, 2):
        stuck.wait_until_part_trains(part)
        alice.shell(["scancel", "--batch", "--signal=USR1", stuck.job])
    alice.waiting(lambda: left(alice) in ("", f"{stuck.job}/JobHeldUser"), 200)
    assert left(alice), logs(stuck.run)
    assert [numbers[0] for numbers in stuck.epochs()] == [0, 0], logs(stuck.run)
    assert "2 parts left no newer checkpoint than they found" in logs(stuck.run)


def left(user: User) -> str:
    """What is in the queue, with the reason why it waits."""
    asked = ["squeue", "--noheader", "--format=%i/%r"]
    return user.cluster.run("login1", asked).stdout.strip()
