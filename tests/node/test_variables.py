"""What a kernel knows, carried over to another one: real kernels, without a cluster."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import AsyncKernelManager

from jupyter_hpc.errors import UsageError
from jupyter_hpc.node.kernels import evaluate
from jupyter_hpc.node.services import variables
from jupyter_hpc.node.services.hooks import ServerHooks
from jupyter_hpc.node.services.variables import Carried, Limits, VariablesService, read_limits

pytestmark = pytest.mark.timeout(120)

BOUND = Limits(1 << 20, 2 << 20)

#: One of everything that a notebook may hold.
CELL = """
import json, math, threading, time
from math import sqrt

counter = 41
shared = [1, 2]
pair = (shared, shared)
other = {"same": shared}
huge = bytes(2 << 20)
big = [bytes(700 << 10)]
bigger = [bytes(700 << 10)]
lock = threading.Lock()

class Model:
    pass

model = Model()
models = [model]

def step():
    return 1

class Hangs:
    __module__ = "json"
    def __reduce__(self):
        time.sleep(600)

class Ends:
    __module__ = "json"
    def __reduce__(self):
        raise SystemExit(3)

hangs, ends = Hangs(), Ends()
_private = 1
too_much = [bytes(700 << 10)]
"""


class Kernels:
    """Kernels by their ids, as the server has them."""

    def __init__(self) -> None:
        self.running: dict[str, AsyncKernelManager] = {}
        self.languages: dict[str, str] = {}
        self.hooks = ServerHooks(
            kernel_language=lambda kernel_id: self.languages.get(kernel_id, "python"),
            evaluate=lambda kernel_id, text, seconds: evaluate(
                self.running[kernel_id], text, seconds
            ),
        )

    async def start(self, kernel_id: str) -> None:
        self.running[kernel_id] = AsyncKernelManager(kernel_name="python3")
        await self.running[kernel_id].start_kernel()

    async def run(self, kernel_id: str, code: str) -> None:
        client = self.running[kernel_id].client()
        client.start_channels()
        try:
            reply = await client.execute(code, reply=True, timeout=60)
            assert reply["content"]["status"] == "ok", reply["content"]
        finally:
            client.stop_channels()

    async def value(self, kernel_id: str, text: str) -> Any:
        return ast.literal_eval(await evaluate(self.running[kernel_id], text, 30))


@pytest.fixture
async def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kernels]:
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Kernels()
    yield made
    for kernel in made.running.values():
        await kernel.shutdown_kernel(now=True)


def session(kernel_id: str, **kernel: str) -> dict[str, Any]:
    return {"path": f"{kernel_id}.ipynb", "kernel": {"id": kernel_id, **kernel}}


def service(kernels: Kernels, job: str = "7") -> VariablesService:
    return VariablesService(kernels.hooks, {"SLURM_JOB_ID": job})


def moved(written: dict[str, Any], kernel_id: str) -> dict[str, Any]:
    """The answer of the old server, for another kernel; it travels as JSON."""
    answer: dict[str, Any] = json.loads(json.dumps(written))
    for row in answer["kernels"]:
        row["kernel_id"] = kernel_id
    return answer


async def test_what_can_be_carried_over_is_and_the_rest_is_named(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(variables, "_EACH_SECONDS", 0.5)
    await asyncio.gather(kernels.start("old"), kernels.start("new"))
    await kernels.run("old", CELL)
    old = service(kernels)
    written: Any = await old.write([session("old")], BOUND)
    (kernel,) = written["kernels"]
    left = {row["name"]: row["reason"] for row in kernel["left"]}
    assert kernel["problem"] == ""
    assert set(kernel["names"]) == {
        *("sqrt", "counter", "shared", "pair", "other", "big", "bigger"),
    }
    assert left.pop("json") == left.pop("math") == "a module: import it again"
    assert left.pop("huge") == "larger than 1 MB"
    assert left.pop("too_much") == "beyond the 2 MB for all variables"
    assert left.pop("lock").startswith("TypeError: cannot pickle")
    assert left.pop("Model") == "a class that is defined in the notebook: run its cell again"
    needs = "needs the class Model, which is defined in the notebook"
    assert left.pop("model") == left.pop("models") == needs
    assert left.pop("step").startswith("a function that is defined in the notebook")
    assert left.pop("hangs") == "took too long to be written"
    assert left.pop("ends") == "SystemExit: 3"
    assert {"threading", "time", "Hangs", "Ends"} == set(left)
    folder = Path(written["folder"])
    assert folder.parent == tmp_path / ".local/state/jupyter-hpc/jobs/7"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    (carried,) = await service(kernels, "8").read(moved(written, "new"))
    assert set(carried.names) == set(kernel["names"]) and carried.problem == ""
    assert await kernels.value("new", "(counter, sqrt(9), pair, other['same'])") == (
        *(41, 3.0),
        *(([1, 2], [1, 2]), [1, 2]),
    )
    # What variables share they share still, and none of ours is among them.
    assert await kernels.value("new", "pair[0] is pair[1] is shared is other['same']")
    assert await kernels.value("new", "[n for n in dir() if 'carry' in n or 'space' in n]") == []
    assert await kernels.value("old", "counter") == 41, "the old kernel lives"
    assert not folder.exists()


async def test_a_kernel_that_works_is_not_waited_for_too_long(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variables, "_BUSY_SECONDS", 1.0)
    await kernels.start("old")
    await kernels.run("old", "import time")
    client = kernels.running["old"].client()
    client.start_channels()
    client.execute("time.sleep(30)")
    old = service(kernels)
    written: Any = await old.write([session("old", execution_state="busy")], BOUND)
    client.stop_channels()
    (kernel,) = written["kernels"]
    assert kernel["problem"] == "the kernel worked on a cell for 1 s" and not kernel["names"]
    # Nothing was written, so nothing is read; what was said is said on.
    (carried,) = await service(kernels).read(moved(written, "new"))
    assert carried.problem == kernel["problem"]
    await old.stop()
    assert not Path(written["folder"]).exists()


async def test_other_languages_are_named(kernels: Kernels) -> None:
    kernels.languages["r"] = "R"
    written: Any = await service(kernels).write([session("r")], BOUND)
    assert written["kernels"][0]["problem"] == (
        "this is only done for Python kernels, and its language is R"
    )


async def test_a_full_disk_is_said(kernels: Kernels) -> None:
    await kernels.start("old")
    await kernels.run("old", "import resource; n = [bytes(1000)] * 1; more = bytes(200000)")
    # The kernel may write no file that is larger than this.
    await kernels.run(
        "old",
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))",
    )
    written: Any = await service(kernels).write([session("old")], BOUND)
    (kernel,) = written["kernels"]
    assert kernel["problem"].startswith("OSError: [Errno 27]") and kernel["file"] == ""
    assert list(Path(written["folder"]).iterdir()) == []


async def test_a_file_of_somebody_else_is_not_read(kernels: Kernels) -> None:
    """To read a pickle is to run it."""
    await asyncio.gather(kernels.start("old"), kernels.start("new"))
    await kernels.run("old", "n = 1")

    async def read(change: Any) -> Carried:
        written: Any = await service(kernels).write([session("old")], BOUND)
        change(Path(written["folder"]) / "0.pickle")
        (carried,) = await service(kernels).read(moved(written, "new"))
        assert await kernels.value("new", "'n' in globals()") is False
        assert not Path(written["folder"]).exists()
        return carried

    def replaced(file: Path) -> None:
        file.write_bytes(file.read_bytes().replace(b"n", b"m"))

    def linked(file: Path) -> None:
        os.replace(file, file.with_suffix(".moved"))
        file.symlink_to(file.with_suffix(".moved"))

    assert "is not the one that was written" in (await read(replaced)).problem
    assert "is not this user's alone" in (await read(lambda file: file.chmod(0o604))).problem
    assert "OSError" in (await read(linked)).problem


async def test_one_that_cannot_be_read_is_named_with_those_behind_it(kernels: Kernels) -> None:
    await asyncio.gather(kernels.start("old"), kernels.start("new"))
    await kernels.run("old", "import sys, types; sys.modules['gone'] = types.ModuleType('gone')")
    await kernels.run(
        "old",
        "exec('class C: pass', vars(sys.modules['gone'])); a = 1; b = sys.modules['gone'].C()",
    )
    await kernels.run("old", "c = 3")
    written: Any = await service(kernels).write([session("old")], BOUND)
    (carried,) = await service(kernels).read(moved(written, "new"))
    assert carried.names == ("a",)
    left = {row["name"]: row["reason"] for row in carried.left}
    assert left["b"].startswith("ModuleNotFoundError") and left["c"] == "could not be read after b"


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"folder": 3, "kernels": []},
        {"folder": "/x", "kernels": [{"path": "a"}]},
        {
            "folder": "/x",
            "kernels": [
                {"path": "a", "kernel_id": "k", "names": [], "left": [], "file": "../../x"}
            ],
        },
    ],
)
async def test_what_no_server_wrote_is_refused(kernels: Kernels, body: Any) -> None:
    with pytest.raises(UsageError):
        await service(kernels).read(body)


async def test_a_folder_that_others_can_write_is_refused(kernels: Kernels, tmp_path: Path) -> None:
    folder = tmp_path / "variables-open"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    row = {"path": "a", "kernel_id": "k", "names": ["n"], "left": [], "file": "0.pickle"}
    with pytest.raises(UsageError, match="only this user"):
        await service(kernels).read({"folder": str(folder), "kernels": [row]})
    assert folder.exists()


def test_the_limits_of_a_request() -> None:
    assert read_limits(None) is read_limits({}) is read_limits({"variables": None}) is None
    asked = {"variables": {"each_bytes": 1, "total_bytes": 2}}
    assert read_limits(asked) == Limits(1, 2)
    for wrong in ({"variables": 3}, {"variables": {"each_bytes": -1, "total_bytes": 2}}):
        with pytest.raises(UsageError):
            read_limits(wrong)
