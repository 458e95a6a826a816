"""`submit --trial`: what it fills, and where it is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.submit.submit import SubmitOptions
from jupyter_hpc.batch.verify.trial_run import Measured
from jupyter_hpc.cli import trying
from jupyter_hpc.cli.hosts import Host
from jupyter_hpc.errors import UsageError
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import write_notebook

CELLS = ["epochs = 90", "for epoch in range(epochs):\n    print(epoch)"]
GIVEN: dict[str, Any] = {"trial": "2 epochs", "mem": None, "time_": None}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    async def measured(*arguments: Any, **options: Any) -> Measured:
        assert arguments[4:] == ("epochs", 2)
        return Measured(2, 30.0, epoch=10.0, once=10.0, memory=3_100_000_000)

    monkeypatch.setattr(trying, "trial_run", measured)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return write_notebook(tmp_path / "a.ipynb", CELLS)


@pytest.fixture
def runner() -> LocalRunner:
    return LocalRunner()


def host(runner: LocalRunner, *, here: bool = True) -> Host:
    return Host(runner, None, here)


async def test_time_and_memory_are_filled_where_nobody_has_said_them(
    path: Path, runner: LocalRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await trying.tried([str(path)], SubmitOptions(), GIVEN, host(runner))
    assert (found.request.time, found.request.memory) == ("00:20:00", "5G")
    assert "All 90 would take 15 min" in capsys.readouterr().err
    said = {**GIVEN, "mem": "9G", "time_": "04:00:00"}
    options = SubmitOptions()
    options = dataclasses.replace(
        options, request=dataclasses.replace(options.request, time="04:00:00", memory="9G")
    )
    assert await trying.tried([str(path)], options, said, host(runner)) == options


async def test_the_parts_of_a_chain_are_counted(path: Path, runner: LocalRunner) -> None:
    found = await trying.tried([str(path)], SubmitOptions(chain_unit=650), GIVEN, host(runner))
    assert (found.chain, found.chain_unit) == (2, None)
    with pytest.raises(UsageError, match="longer than one part"):
        await trying.tried([str(path)], SubmitOptions(chain_unit=14), GIVEN, host(runner))


async def test_it_is_refused_where_it_cannot_be(
    path: Path, runner: LocalRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, given, here, why in (
        ([str(path)], {**GIVEN, "trial": "soon"}, True, "no number of epochs"),
        (["a.py"], GIVEN, True, "one notebook"),
        ([str(path)], GIVEN, False, "not for work"),
    ):
        with pytest.raises(UsageError, match=why):
            await trying.tried(words, SubmitOptions(), given, host(runner, here=here))
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(UsageError, match="not for work"):
        await trying.tried([str(path)], SubmitOptions(), GIVEN, host(runner))
