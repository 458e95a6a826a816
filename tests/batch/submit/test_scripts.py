"""Scripts as the steps of a job: what is frozen, and what runs, by plain bash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.job.model import DEFAULT_REQUEST
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.scripts import is_script, prepare_scripts, read_scripts
from jupyter_hpc.batch.submit.submit import Prepared, SubmitOptions
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import LocalRunner
from tests.waiting import eventually

TRAIN = """
import argparse, helper, sys
parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.1)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--fail", type=int, default=0)
given = parser.parse_args()
print("train", given.learning_rate, given.amp, helper.NAME, flush=True)
open("weights.txt", "a").write("w")
sys.exit(given.fail)
"""
PREDICT = "print('predict', open('weights.txt').read(), flush=True)\n"
CLEAN = 'echo "clean $*"\nrm weights.txt\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "pro ject"
    work.mkdir()
    files = {"train.py": TRAIN, "predict.py": PREDICT, "clean up.sh": CLEAN}
    for name, text in {**files, "helper.py": "NAME = 'frozen'\n"}.items():
        (work / name).write_text(text)
    monkeypatch.chdir(work)
    return work


async def prepared(*words: str, **options: Any) -> Prepared:
    request = {**vars(DEFAULT_REQUEST), "gpus": None, **options.pop("request", {})}
    made = SubmitOptions(request=type(DEFAULT_REQUEST)(**request), **options)
    return await prepare_scripts(
        read_scripts(words), made, LocalRunner({"PATH": "/usr/bin:/bin"}), None
    )


class Run:
    """The run folder of a job, and its script as bash runs it without Slurm."""

    def __init__(self, job: Prepared, tmp_path: Path) -> None:
        self.folder = tmp_path / "run"
        for name, data in job.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.script = tmp_path / "job.sh"
        # Here the limit comes right after its warning.
        text = script_text(replace(job.job, warning=0))
        self.script.write_text(text.replace(job.job.run_dir, str(self.folder)))
        (tmp_path / "bin").mkdir(exist_ok=True)
        srun = tmp_path / "bin" / "srun"
        srun.write_text('#!/bin/bash\nwhile [[ "${1:-}" == --* ]]; do shift; done\nexec "$@"\n')
        srun.chmod(0o755)
        for name in ("scontrol", "scancel"):
            (tmp_path / "bin" / name).symlink_to("/bin/true")
        self.path = f"{tmp_path}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"
        self.log = tmp_path / "log"

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", str(self.script)],
            env={"PATH": self.path, "SLURM_JOB_ID": "7", "HOME": "/nonexistent", **variables},
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def to_end(self, **variables: str) -> tuple[int, str]:
        code = self.start(**variables).wait(60)
        return code, self.log.read_text()


async def test_steps_run_in_order_with_their_arguments(folder: Path, tmp_path: Path) -> None:
    job = await prepared(
        "train.py --fail 0", "predict.py", "clean up.sh", settings={"learning_rate": "0.5"}
    )
    assert job.findings == ()
    run = Run(job, tmp_path)
    (folder / "helper.py").write_text("NAME = 'edited later'\n")
    code, log = run.to_end()
    lines = [line for line in log.splitlines() if not line.startswith("[jupyter-hpc]")]
    assert (code, lines) == (0, ["train 0.5 False frozen", "predict w", "clean "]), log
    assert "step 2 of 3: predict.py" in log and not (folder / "weights.txt").exists()
    assert (run.folder / "output" / "DONE").exists()


async def test_a_step_that_fails_is_the_last_one(folder: Path, tmp_path: Path) -> None:
    run = Run(await prepared("train.py --fail 3", "predict.py"), tmp_path)
    code, log = run.to_end()
    assert code == 3 and "predict" not in log.replace("predict.py", "")
    assert "step 1, train.py, ended with code 3" in log
    assert json.loads((run.folder / "output" / "state.json").read_text())["code"] == 3


@pytest.mark.parametrize("until", ["all", "done", "exit"])
async def test_each_part_of_a_chain_runs_its_steps_unless_they_are_done(
    folder: Path, tmp_path: Path, until: Any
) -> None:
    unit = "import os\nfolder = os.environ['JUPYTER_HPC_CHECKPOINTS']\n"
    unit += "open(f'{folder}/unit.pt', 'a').write('u')\nn = len(open(f'{folder}/unit.pt').read())\n"
    unit += "print('unit', n, flush=True)\nif n == 2: open(f'{folder}/DONE', 'w')\n"
    (folder / "train.py").write_text(unit)
    (folder / "predict.py").write_text("print('predict', flush=True)\n")
    run = Run(await prepared("train.py", "predict.py", chain=3, until=until), tmp_path)
    for task in "123"[: {"all": 3, "done": 2, "exit": 1}[until]]:
        code, log = run.to_end(SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_JOB_ID="5")
        assert code == 0, log
        done = (run.folder / "output" / "DONE").exists()
        assert done is (task == {"all": "3", "done": "2", "exit": "1"}[until]), log
    lines = [line for line in log.splitlines() if not line.startswith("[jupyter-hpc]")]
    units = {"all": 3, "done": 2, "exit": 1}[until]
    assert lines == [word for n in range(1, units + 1) for word in (f"unit {n}", "predict")], log


async def test_a_step_that_asks_for_another_part_is_the_first_of_it(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "train.py").write_text("print('prepare', flush=True)\n")
    again = "import os, sys\npath = os.environ['JUPYTER_HPC_CHECKPOINTS'] + '/n'\n"
    again += "there = os.path.exists(path)\nopen(path, 'w')\nprint('train', there, flush=True)\n"
    (folder / "predict.py").write_text(f"{again}sys.exit(0 if there else 85)\n")
    run = Run(await prepared("train.py", "predict.py", chain=3, until="all"), tmp_path)
    for task in "123":
        _, log = run.to_end(SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_JOB_ID="5")
    lines = [line for line in log.splitlines() if not line.startswith("[jupyter-hpc]")]
    assert lines == ["prepare", "train False", "train True", "prepare", "train True"], log


async def test_a_step_that_cannot_be_marked_as_done_is_followed_by_the_next(
    folder: Path, tmp_path: Path
) -> None:
    moves = (
        "import os\nplace = os.environ['JUPYTER_HPC_CHECKPOINTS']\nos.rename(place, place + '-1')\n"
    )
    (folder / "train.py").write_text(moves)
    (folder / "predict.py").write_text("print('predict', flush=True)\n")
    run = Run(await prepared("train.py", "predict.py", requeue=True), tmp_path)
    code, log = run.to_end()
    assert code == 0 and "predict" in log.splitlines(), log
    assert "step 1, train.py, cannot be marked as done" in log
    assert (run.folder / "output" / "DONE").exists()


async def test_a_sweep_gives_each_run_its_arguments_and_folder(
    folder: Path, tmp_path: Path
) -> None:
    sweep = {"learning-rate": ["1", "2"], "amp": ["true", "false"]}
    job = await prepared("train.py", "predict.py", sweep=sweep)
    assert job.job.runs == 4
    run = Run(job, tmp_path)
    for task in "1234":
        assert run.to_end(SLURM_ARRAY_TASK_ID=task)[0] == 0
    log = run.log.read_text()
    shown = [line for line in log.splitlines() if line.startswith("train")]
    assert [line.split()[1:3] for line in shown] == [
        *[["1.0", "True"], ["1.0", "False"], ["2.0", "True"], ["2.0", "False"]],
    ]
    assert log.count("predict w\n") == 4 and not (folder / "weights.txt").exists()


async def test_what_is_done_is_not_done_again_after_a_requeue(folder: Path, tmp_path: Path) -> None:
    ticking = (
        "import time\nfor n in range(900):\n    print('tick', flush=True)\n    time.sleep(0.1)\n"
    )
    (folder / "wait.py").write_text(ticking)
    run = Run(await prepared("train.py", "wait.py", requeue=True), tmp_path)
    process = run.start()
    eventually(lambda: "tick" in run.log.read_text())
    os.kill(process.pid, signal.SIGUSR1)  # the time is short: the program is not ended by it
    eventually(lambda: "tick" in run.log.read_text().partition("the time limit is near")[2])
    assert "ended with code" not in run.log.read_text()
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 0, "it goes on, which is no failure"
    (run.folder / "scripts" / "wait.py").write_text("print('second time')\n")
    code, log = run.to_end(SLURM_RESTART_COUNT="1")
    assert code == 0 and log.count("train 0.1") == 1 and "second time" in log
    assert "step 1, train.py, was done before" in log


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["gone.py"], {}, "no script 'gone.py'"),
        (["train.py", "notes.txt"], {}, "is no script"),
        (["train.py --name 'a b"], {}, "a quote in them is not closed"),
        (["predict.py"], {"settings": {"lr": "1"}}, "Write it behind the script, in quotes."),
        (["train.py", "other.ipynb"], {}, "a notebook runs alone"),
        (["wrong.py"], {}, "wrong.py, line 2 is not valid Python"),
        (["train.py"], {"settings": {"lr": "1"}}, "There are: learning_rate, amp, fail."),
        (["../x/a.py", "train.py"], {}, "is not in the folder of a.py"),
    ],
)
async def test_what_cannot_run_is_said(
    folder: Path, words: list[str], options: dict[str, Any], message: str
) -> None:
    (folder / "wrong.py").write_text("x = 1\nx = = 2\n")
    (folder / "notes.txt").touch()
    (folder / "other.ipynb").touch()
    (folder.parent / "x").mkdir()
    (folder.parent / "x" / "a.py").touch()
    with pytest.raises(UsageError) as caught:
        await prepared(*words, **options)
    assert message in str(caught.value)


async def test_preflight_looks_at_scripts_too(folder: Path) -> None:
    (folder / "train.py").write_text("import no_such_one, helper\nopen('made.txt', 'w')\n")
    (folder / "predict.py").write_text("open('made.txt')\nopen('gone.csv')\n")
    (folder / "helper.py").write_text("import no_such_two\n")
    found = (await prepared("train.py", "predict.py")).findings
    assert [(each.check, each.where) for each in found] == [
        *[("imports", "train.py"), ("imports", "helper.py"), ("inputs", "predict.py")],
    ]


def test_scripts_are_known_by_their_names(folder: Path) -> None:
    assert is_script("train.py") and is_script("clean up.sh") and is_script("train.py --a 'b c'")
    assert not is_script("train.ipynb") and not is_script("it's")


async def test_a_chain_that_never_looks_at_its_checkpoints_is_a_warning(folder: Path) -> None:
    found = (await prepared("train.py", chain=2)).findings
    assert [(each.severity, each.check) for each in found] == [("warning", "checkpoints")]
    assert "begin at zero" in found[0].message and "JUPYTER_HPC_CHECKPOINTS" in found[0].hint
    (folder / "train.py").write_text("import os\nos.environ['JUPYTER_HPC_CHECKPOINTS']\n")
    assert (await prepared("train.py", chain=2)).findings == ()
    (folder / "train.py").write_text("x = 1\n")
    assert (await prepared("train.py")).findings == ()


@pytest.mark.parametrize(
    "code",
    [
        "import json\nfrom json import *\nimport torch\nfor _ in range(9):\n    loss.backward()\n",
        "from transformers import Trainer\nTrainer(model=None).train()\n",
    ],
)
async def test_a_chain_of_a_training_that_would_begin_at_zero_is_refused(
    folder: Path, code: str
) -> None:
    (folder / "train.py").write_text(code)
    found = (await prepared("train.py", chain=2)).findings
    (refused,) = [each for each in found if each.check == "checkpoints"]
    assert refused.severity == "error" and "run.batches(loader)" in refused.hint
    (folder / "train.py").write_text(f"from jupyter_hpc.training import Run\n{code}Run()\n")
    found = (await prepared("train.py", chain=2)).findings
    assert not [each for each in found if each.check == "checkpoints"]
