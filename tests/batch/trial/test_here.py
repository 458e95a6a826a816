"""A trial measures, in a folder of its own, for a limited time, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_hpc.batch.submit.drafts import read_draft
from jupyter_hpc.batch.submit.submit import SubmitOptions
from jupyter_hpc.batch.trial.here import LocalTrial
from jupyter_hpc.batch.trial.measured import Measured, TrialFailed
from jupyter_hpc.batch.trial.plan import Trial, Wanted, plan_trial
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import write_notebook
from tests.waiting import eventually

CELLS = [
    "epochs = 90",
    "import os, subprocess, time\nblock = bytearray(80_000_000)\nopen('made', 'w').close()",
    "for epoch in range(epochs):\n    time.sleep(0.15)\n    print('epoch', epoch, flush=True)",
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folders of trials are made, by the Python of the tests."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    return folder


async def planned(
    folder: Path, cells: list[str], wanted: Wanted, options: SubmitOptions | None = None
) -> Trial:
    runner, options = LocalRunner(), options or SubmitOptions()
    path = write_notebook(folder / "project" / "a.ipynb", cells)
    return await plan_trial(path, await read_draft(path, options, runner), options, runner, wanted)


def over(trial: LocalTrial, seconds: float = 30.0) -> Measured:
    """Its result, once it is over; it is ended in any case."""
    try:
        eventually(lambda: not trial.running, seconds=seconds)
        return trial.result()
    finally:
        trial.end()


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds that no other test sleeps; nothing sleeps it in the end."""
    number = f"{time.time_ns() % 10**9}"
    yield number
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"sleep {number}" not in found.stdout


async def test_a_trial_measures_and_leaves_nothing(tmp_path: Path, place: Path) -> None:
    planned_trial = await planned(tmp_path, CELLS, Wanted(4))
    assert (planned_trial.total, planned_trial.wanted.epochs) == (90, 4)
    trial = LocalTrial.start(planned_trial, None, None)
    eventually(lambda: trial.progress().run == 2 and trial.progress().epoch is not None)
    far = trial.progress()
    assert (far.runs, far.epochs) == (2, 4) and far.line.startswith("epoch ")
    found = over(trial)
    assert found.epochs == 4 and 0.15 <= found.epoch < 3
    assert 80_000_000 < found.memory < 400_000_000
    assert [each.name for each in (tmp_path / "project").iterdir()] == ["a.ipynb"]
    assert [*place.iterdir()] == []
    assert "All 90 would take" in found.sentence(90)


async def test_a_failing_trial_says_why(tmp_path: Path, place: Path) -> None:
    for line, why in (
        ("raise ValueError('no data')", r"Cell 2 ended with ValueError: no data\. Its last lines"),
        ("import no_such_module", "has no module 'no_such_module'"),
        (
            "import os, signal\nos.kill(os.getpid(), 9)",
            "was killed when it held .* memory is short",
        ),
        ("raise SystemExit(7)", "ended with code 7"),
    ):
        trial = await planned(tmp_path, [CELLS[0], f"print(epochs)\n{line}"], Wanted(2))
        with pytest.raises(TrialFailed, match=why):
            over(LocalTrial.start(trial, None, None))
    assert [*place.iterdir()] == []


async def test_it_ends_in_time_with_all_that_it_started(
    tmp_path: Path, place: Path, mark: str
) -> None:
    """Also what ignores signals, and what has left its group and lost its parent."""
    stubborn = (
        "import signal, subprocess, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen(['setsid', 'sh', '-c', 'sleep {mark} & exit'])\n"
        f"subprocess.Popen(['sleep', '{mark}'])\nprint('working', flush=True)\n"
        "for epoch in range(epochs): time.sleep(600)"
    )
    trial = await planned(tmp_path, [CELLS[0], stubborn], Wanted(2, 2.0))
    with pytest.raises(TrialFailed, match=r"One epoch was not over after 2 s(?s:.*)working"):
        over(LocalTrial.start(trial, None, None))


async def test_one_epoch_is_enough_where_more_take_too_long(tmp_path: Path, place: Path) -> None:
    slow = "import time\nfor epoch in range(epochs):\n    time.sleep(0.2 if epochs == 1 else 600)"
    found = over(
        LocalTrial.start(await planned(tmp_path, [CELLS[0], slow], Wanted(2, 4.0)), None, None)
    )
    assert (found.epochs, found.once) == (1, 0.0) and 0.2 <= found.epoch < 3


async def test_it_may_hold_so_much_memory(tmp_path: Path, place: Path) -> None:
    greedy = "import time\nheld = []\nfor turn in range(100):\n"
    greedy += "    held.append(bytearray(10_000_000))\n    time.sleep(0.05)\n"
    trial = await planned(tmp_path, [CELLS[0], f"print(epochs)\n{greedy}"], Wanted(2))
    with pytest.raises(TrialFailed, match=r"it held \d+ MB of memory, and the session has no more"):
        over(LocalTrial.start(trial, 120_000_000, None))


async def test_what_was_killed_is_tidied_by_a_later_trial(tmp_path: Path, place: Path) -> None:
    for name, age in (
        ("jupyter-hpc-trial-old", 9000),
        ("jupyter-hpc-trial-new", 60),
        ("own", 9000),
    ):
        (place / name).mkdir()
        os.utime(place / name, (0, time.time() - age))
    over(LocalTrial.start(await planned(tmp_path, CELLS, Wanted(1)), None, None))
    assert sorted(each.name for each in place.iterdir()) == ["jupyter-hpc-trial-new", "own"]


async def test_two_at_once_would_measure_each_other(tmp_path: Path, place: Path, mark: str) -> None:
    waiting = await planned(
        tmp_path, [CELLS[0], f"import os\nprint(epochs)\nos.system('sleep {mark}')"], Wanted(2)
    )
    lock = tmp_path / "state" / "lock"
    first = LocalTrial.start(waiting, None, lock)
    try:
        eventually(lambda: first.progress().run == 1)
        with pytest.raises(TrialFailed, match="Another trial of yours runs in this session"):
            over(LocalTrial.start(waiting, None, lock))
        assert first.running
    finally:
        first.end()
    assert not lock.exists() and [*place.iterdir()] == []


async def test_it_ends_with_whoever_started_it(tmp_path: Path, place: Path, mark: str) -> None:
    """Killed without a word: nobody ends it, and nobody removes its folder."""
    write_notebook(
        tmp_path / "project" / "a.ipynb",
        [CELLS[0], f"import os\nprint(epochs)\nos.system('sleep {mark}')"],
    )
    starter = f"""
import asyncio, sys, tempfile, time
from pathlib import Path
from tests.batch.trial.test_here import LocalTrial, Wanted, eventually, planned
tempfile.tempdir = {str(place)!r}
cells = ["epochs = 9", "import os\\nprint(epochs)\\nos.system('sleep {mark}')"]
plan = asyncio.run(planned(Path({str(tmp_path)!r}), cells, Wanted(2)))
trial = LocalTrial.start(plan, None, None)
eventually(lambda: trial.progress().run == 1)
print("runs", flush=True)
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == "runs\n"
        process.kill()
        process.wait()
    eventually(lambda: [*place.iterdir()] == [], seconds=20)
