"""The numbers of runs as curves, over REST and from run folders as jobs leave them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.node.services.curves import CurveService, RunFolders
from jupyter_hpc.node.services.offload import Offload
from tests.batch.runs.test_registry import make_run, notes, put
from tests.node.conftest import Ask

__all__ = ["notes"]  # a fixture


def sweep(notes: Path, job: int) -> Path:
    folder = make_run(notes, job)
    for task, lr in enumerate((0.1, 0.01)):
        put(folder / f"parameters/{task}.json", {"lr": lr})
        (folder / f"output/{task}").mkdir()
        lines = "".join(f"epoch {n} loss: {n * lr} acc: nan\n" for n in (1, 2, 3))
        put(folder / f"logs/{job}_{task}.out", lines)
    return folder


async def asked(ask: Ask, ids: str, **params: Any) -> tuple[int, Any]:
    return await ask("runs/curves", params={"ids": ids, **params})


async def test_the_runs_of_a_sweep_are_lines_of_one_curve(notes: Path, ask: Ask) -> None:
    sweep(notes, 7)
    status, answer = await asked(ask, "7_0,7_1")
    assert status == 200
    (curve,) = answer["curves"]
    assert (curve["name"], curve["x"], curve["better"]) == ("loss", "epoch", "less")
    assert [line["run"] for line in curve["lines"]] == ["7_0", "7_1"]
    assert curve["lines"][1]["points"] == [[1, 0.01], [2, 0.02], [3, 0.03]]
    assert (await asked(ask, "7"))[1] == answer, "a sweep stands for its runs"
    assert len((await asked(ask, "7_1", points=2))[1]["curves"][0]["lines"][0]["points"]) == 2


async def test_what_decides_comes_first_and_all_parts_are_one_run(notes: Path, ask: Ask) -> None:
    folder = make_run(notes, 8)
    put(folder / "logs/8_1.out", "epoch 1 a: 1 val_loss: 3\nepoch 2 a: 2 val_loss: 2\n")
    put(folder / "logs/8_2.out", "epoch 3 a: 1 val_loss: 1\n")
    curves = (await asked(ask, "8_2"))[1]["curves"]
    assert [(curve["name"], curve["better"]) for curve in curves] == [
        ("val_loss", "less"),
        ("a", "more"),
    ]
    assert [line["run"] for line in curves[0]["lines"]] == ["8"]
    assert len(curves[0]["lines"][0]["points"]) == 3


async def test_of_runs_that_are_not_known(notes: Path, ask: Ask) -> None:
    sweep(notes, 7)
    assert len((await asked(ask, "7_0,99"))[1]["curves"]) == 1
    status, answer = await asked(ask, "99")
    assert status == 404
    assert "Job 99 was not submitted by jupyter-hpc" in answer["message"]
    (notes / "6").write_text(str(notes / "gone"))
    assert await asked(ask, "6") == (200, {"curves": []})


@pytest.mark.parametrize("bad", [{"ids": ""}, {"ids": "../7"}, {"ids": "7", "points": 1}])
async def test_odd_questions(notes: Path, ask: Ask, bad: dict[str, Any]) -> None:
    status, answer = await ask("runs/curves", params=bad)
    assert status == 400
    assert answer["message"]


class TestSwitchedOff:
    @pytest.fixture
    def jp_server_config(self) -> dict[str, Any]:
        extensions = {"ServerApp": {"jpserver_extensions": {"jupyter_hpc": True}}}
        return {**extensions, "HpcExtension": {"logs_enabled": False}}

    async def test_the_site_may_show_no_logs(self, notes: Path, ask: Ask) -> None:
        sweep(notes, 7)
        assert (await asked(ask, "7"))[0] == 403


async def test_after_a_disk_that_hung_nothing_is_shared_with_the_thread(notes: Path) -> None:
    class Hanging(Offload):
        hangs = True

        async def __call__(self, function: Any, *arguments: Any, **_: Any) -> Any:
            if self.hangs:
                raise CommandTimeout("The folder of the runs has not answered.", "")
            return function(*arguments)

    async def find(job_id: str) -> str:
        return (notes / job_id).read_text().strip()

    sweep(notes, 7)
    offload = Hanging()
    service = CurveService(RunFolders(find), offload)
    before = service._followed
    with pytest.raises(CommandTimeout):
        await service.read("7", 10)
    assert service._followed is not before
    offload.hangs = False
    both = await asyncio.gather(service.read("7", 10), service.read("7", 10))
    assert both[0] == both[1]
