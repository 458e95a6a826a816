"""`submit --trial`: what it fills, and where it is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.submit.choices import Choices
from jupyter_hpc.batch.submit.submit import SubmitOptions
from jupyter_hpc.batch.trial.here import Progress
from jupyter_hpc.batch.trial.measured import Measured, TrialFailed
from jupyter_hpc.batch.trial.plan import Trial, Wanted, read_wanted
from jupyter_hpc.cli import trying
from jupyter_hpc.cli.hosts import Host
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.client import SlurmClient
from tests.batch.notebooks import write_notebook

CELLS = ["epochs = 90", "for epoch in range(epochs):\n    print(epoch)"]
GIVEN: dict[str, Any] = {"trial": "2 epochs", "mem": None, "time_": None}


class PlayedTrial:
    """One that is over at once."""

    running = False
    ended = 0

    @classmethod
    def start(cls, trial: Trial, memory: int | None, lock: Path | None) -> PlayedTrial:
        assert (trial.wanted, trial.total) == (Wanted(2), 90)
        return cls()

    def progress(self) -> Progress:
        return Progress()

    def result(self) -> Measured:
        return Measured(2, 30.0, epoch=10.0, once=10.0, memory=3_100_000_000)

    def end(self) -> None:
        PlayedTrial.ended += 1


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(trying, "LocalTrial", PlayedTrial)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return write_notebook(tmp_path / "a.ipynb", CELLS)


@pytest.fixture
def runner() -> LocalRunner:
    return LocalRunner()


async def tried(
    path: Path, options: SubmitOptions, given: dict[str, Any], runner: LocalRunner
) -> SubmitOptions:
    host, client = Host(runner, None, here=True), SlurmClient(runner)
    return await trying.tried([str(path)], Choices(), options, given, host, client)


async def test_time_and_memory_are_filled_where_nobody_has_said_them(
    path: Path, runner: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = PlayedTrial.ended
    found = await tried(path, SubmitOptions(), GIVEN, runner)
    assert (found.request.time, found.request.memory) == ("00:20:00", "5G")
    assert "All 90 would take 15 min" in capsys.readouterr().err
    assert PlayedTrial.ended == ended + 1
    said = {**GIVEN, "mem": "9G", "time_": "04:00:00"}
    options = SubmitOptions()
    options = dataclasses.replace(
        options, request=dataclasses.replace(options.request, time="04:00:00", memory="9G")
    )
    assert await tried(path, options, said, runner) == options


async def test_the_parts_of_a_chain_are_counted(path: Path, runner: LocalRunner) -> None:
    found = await tried(path, SubmitOptions(chain_unit=650), GIVEN, runner)
    assert (found.chain, found.chain_unit, found.request.time) == (2, None, "00:10:50")
    with pytest.raises(TrialFailed, match="does not fit into one part"):
        await tried(path, SubmitOptions(chain_unit=14), GIVEN, runner)
    share = await tried(path, SubmitOptions(chain=3), GIVEN, runner)  # 30 epochs each
    assert (share.chain, share.request.time) == (3, "00:07:00")


async def test_it_is_refused_where_it_cannot_be(path: Path, runner: LocalRunner) -> None:
    with pytest.raises(UsageError, match="no number of epochs"):
        await tried(path, SubmitOptions(), {**GIVEN, "trial": "soon"}, runner)
    with pytest.raises(UsageError, match="one notebook"):
        await tried(Path("a.py"), SubmitOptions(), GIVEN, runner)
    with pytest.raises(UsageError, match="as an executed notebook"):
        await tried(path, SubmitOptions(mode="notebook"), GIVEN, runner)
    write_notebook(path, ["print(1)"])
    with pytest.raises(UsageError, match="no parameter for its epochs"):
        await tried(path, SubmitOptions(), GIVEN, runner)
    write_notebook(path, ["import torch", *CELLS])
    with pytest.raises(UsageError, match="a GPU for torch and this session has none"):
        await tried(path, SubmitOptions(), GIVEN, runner)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2 epochs", Wanted(2)),
        (" 1 ", Wanted(1)),
        ("3 epochs in 30 min", Wanted(3, 1800.0)),
        ("1 epoch in 00:05:00", Wanted(1, 300.0)),
    ],
)
def test_how_much_is_wanted(text: str, wanted: Wanted) -> None:
    assert read_wanted(text) == wanted


@pytest.mark.parametrize("text", ["", "0", "-1", "two", "2 epochs in", "2 epochs in 3 h", "9999"])
def test_what_is_no_wish(text: str) -> None:
    with pytest.raises(UsageError):
        read_wanted(text)
