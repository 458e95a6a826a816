"""How a Jupyter ended that had served: by launch.sh's last word, else by Slurm's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.connect.job import endings, remote
from jupyter_hpc.connect.job.endings import ServerEnd, how_server_ended
from jupyter_hpc.errors import SlurmUnavailable, Unreachable
from jupyter_hpc.slurm.models import FinishedStep

MIB = 2**20


class World:
    """What launch.sh has written, and what the accounting says of the steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ended: dict[str, list[str]] | Exception = {}
        self.steps: list[list[str]] = []
        self.error: Exception | None = None
        monkeypatch.setattr(remote, "await_file", self.await_file)
        monkeypatch.setattr(endings, "_RECORD_SECONDS", 0.0)

    async def await_file(self, *_: object) -> tuple[str, dict[str, list[str]]]:
        if isinstance(self.ended, Exception):
            raise self.ended
        return "ended" if self.ended else "", self.ended

    async def of_job(self, job_id: str) -> list[FinishedStep]:
        if self.error:
            raise self.error
        states = self.steps.pop(0) if self.steps else []
        rows = [FinishedStep(f"7.{n}", "jupyter", state) for n, state in enumerate(states)]
        return [*rows, FinishedStep("7.9", "sh", "OUT_OF_MEMORY")]

    async def ask(self, known: int = 0) -> ServerEnd:
        anything: Any = SimpleNamespace(
            session="/s", job_id="7", memory_mb=1000, node_count=2, steps=self.of_job
        )
        return await how_server_ended(anything, anything, anything, cast(Any, anything), known)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("code", "killed", "known", "out_of_memory"),
    [("137", "1", 0, True), ("137", "1", 1, False), ("137", "", 0, False), ("1", "1", 0, False)],
)
async def test_a_kill_of_its_own_is_the_cause(
    world: World, code: str, killed: str, known: int, out_of_memory: bool
) -> None:
    world.ended = {"code": [code], "killed": [killed], "limit": [str(500 * MIB)]}
    end = await world.ask(known)
    assert (end.out_of_memory, end.code) == (out_of_memory, code)


async def test_where_the_whole_step_was_ended_slurm_says_why(world: World) -> None:
    world.steps = [["OUT_OF_MEMORY", "RUNNING"], ["OUT_OF_MEMORY", "OUT_OF_MEMORY"]]
    assert await world.ask() == ServerEnd(True, 500 * MIB)


async def test_an_earlier_jupyter_is_not_this_one(world: World) -> None:
    world.steps = [["OUT_OF_MEMORY", "CANCELLED"]]
    assert not (await world.ask()).out_of_memory


@pytest.mark.parametrize("error", [SlurmUnavailable("No accounting."), None])
async def test_nobody_knows(world: World, error: Exception | None) -> None:
    world.error = error
    assert (await world.ask()).cause == "failed"
    world.ended = Unreachable("The connection is away.")
    assert await world.ask() == ServerEnd()
