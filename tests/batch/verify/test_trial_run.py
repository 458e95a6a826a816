"""A trial measures, in a folder of its own, for a limited time, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.verify.trial_run import Measured, TrialFailed, split, trial_run
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import converted

CELLS = [
    "epochs = 90",
    "import os, subprocess, time\nblock = bytearray(80_000_000)\nopen('made', 'w').close()",
    "for epoch in range(epochs):\n    time.sleep(0.15)\n    print('epoch', epoch)",
]


def conversion(folder: Path, cells: list[str]) -> tuple[Path, Conversion]:
    return folder / "a.ipynb", converted(folder, cells)


def test_epochs_are_told_from_what_is_done_once() -> None:
    assert split(14.0, 24.0, 3) == (5.0, 9.0)
    assert split(1.2, 1.4, 2) == (0.7, 0.0)  # only chance: too much rather than too little
    assert split(5.0, 5.0, 1) == (5.0, 0.0)


async def test_a_trial_measures_and_leaves_nothing(tmp_path: Path, runner: LocalRunner) -> None:
    path, made = conversion(tmp_path, CELLS)
    found = await trial_run(path, made, runner, {}, "epochs", 4)
    assert found.epochs == 4 and 0.15 <= found.epoch < 3
    assert 80_000_000 < found.memory < 400_000_000
    assert [each.name for each in tmp_path.iterdir()] == ["a.ipynb"]
    assert "All 90 would take" in found.sentence(90)


async def test_a_failing_trial_shows_its_last_lines(tmp_path: Path, runner: LocalRunner) -> None:
    path, made = conversion(tmp_path, [*CELLS[:1], "print(epochs)\nraise ValueError('no data')"])
    with pytest.raises(TrialFailed, match="ended with code 1") as error:
        await trial_run(path, made, runner, {}, "epochs", 2)
    assert "ValueError: no data" in error.value.message


async def test_a_trial_ends_in_time_with_all_that_it_started(
    tmp_path: Path, runner: LocalRunner
) -> None:
    mark = f"{time.time_ns() % 10**9}"
    stubborn = (
        "import signal, subprocess, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen(['sleep', '{mark}'])\nprint('working', flush=True)\n"
        "for epoch in range(epochs): time.sleep(600)"
    )
    path, made = conversion(tmp_path, [CELLS[0], stubborn])
    with pytest.raises(TrialFailed, match="was not over after") as error:
        await trial_run(path, made, runner, {}, "epochs", 2, seconds=2.0)
    assert "working" in error.value.message
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"sleep {mark}" not in found.stdout


def test_the_margin_and_the_parts() -> None:
    measured = Measured(2, 30.0, epoch=10.0, once=10.0, memory=3_100_000_000)
    assert measured.whole(90) == 910
    assert measured.time_limit(90) == 20 * 60  # 1183 s
    assert measured.memory_request() == "5G"
    assert measured.parts(90, 1300) == 1
    assert measured.parts(90, 650) == 2  # 49 epochs each
    assert measured.parts(90, 14) == 0
    assert os.environ.get("CUDA_VISIBLE_DEVICES") or "GPU" not in measured.sentence(90)
