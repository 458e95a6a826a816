"""Processes that are started anew: they know what the cells have defined, and run no cell."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from jupyter_hpc.batch.runtime.script import children
from tests.batch.notebooks import AnyCell, converted, run_script
from tests.batch.runtime.newest_python import newest_python
from tests.tools import unavailable
from tests.training.site import torch_site

START = """
import multiprocessing as mp, os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
mp.set_start_method(METHOD)
"""

CELLS: list[AnyCell] = [
    "FACTOR = 3\ntable = {'a': 1}\nprint('once')\nopen('runs', 'a').write('.');",
    "%%time\ntry:\n    import math\nexcept ImportError:\n    math = None\n"
    "@dataclass\nclass Point:\n    x: int\n    y: int = FACTOR",
    "origin = Point(1)\nlocked = open('runs')\nhuge = 'x' * 17_000_000\n"
    "def f(n):\n    return n * FACTOR + table['a'] + origin.y + math.floor(rate(lr=0.5))\n"
    "def rate(lr): return lr\ndef other(): return locked, huge\n"
    "own = open('runs')\ndef arguments(own): return [own for n in own]",
    "def outer(n):\n    with ProcessPoolExecutor(1) as inner:\n"
    "        return list(inner.map(f, [n]))[0]",
    "with ProcessPoolExecutor(2) as pool:\n    print(list(pool.map(f, [1, 2])))\n"
    "    print(list(pool.map(Point, [5])))\n    print(list(pool.map(outer, [1])))",
    "def f(n): return -n\nprint(open('runs').read())",
]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_new_process_knows_the_definitions_and_runs_nothing(method: str, tmp_path: Path) -> None:
    conversion = converted(tmp_path, [START.replace("METHOD", repr(method)), *CELLS])
    (tmp_path / "t").mkdir()
    settings = ["--set=FACTOR=10", "--set=lr=2"]
    ran = run_script(conversion, tmp_path / "s", settings, {"TMPDIR": str(tmp_path / "t")})
    assert ran.code == 0, ran.stderr
    assert ran.outputs[6].text == "[23, 33]\n[Point(x=5, y=10)]\n[23]"
    assert ran.outputs[7].text == "."
    for words in ("do not get locked", "do not get huge, which functions of the cells read: too"):
        assert ran.stderr.count(words) == 1
    assert "do not get own" not in ran.stderr, "it is the name of an argument, too"
    assert not list(tmp_path.rglob("jupyter-hpc-child-*"))


def test_the_processes_of_the_newest_python_as_it_starts_them_by_itself(tmp_path: Path) -> None:
    """Since 3.14 that is forkserver; no notebook asks for it."""
    python, version = newest_python(tmp_path)
    assert version >= (3, 14)
    start = START.replace("mp.set_start_method(METHOD)", "print(mp.get_start_method())")
    settings = ["--set=FACTOR=10", "--set=lr=2"]
    conversion = converted(tmp_path, [start, *CELLS])
    ran = run_script(conversion, tmp_path / "s", settings, python=python)
    assert ran.code == 0, ran.stderr
    assert ran.outputs[1].text == "forkserver"
    assert ran.outputs[6].text == "[23, 33]\n[Point(x=5, y=10)]\n[23]"
    assert ran.outputs[7].text == "."


def test_a_failure_in_a_new_process_is_that_of_the_notebook(tmp_path: Path) -> None:
    cells: list[AnyCell] = [
        START.replace("METHOD", "'spawn'"),
        "def f(n):\n    return 1 / n",
        "with ProcessPoolExecutor(1) as pool:\n    list(pool.map(f, [0]))",
    ]
    ran = run_script(converted(tmp_path, cells), tmp_path / "s")
    assert ran.code == 1 and "ZeroDivisionError" in ran.stderr
    assert "return 1 / n" in ran.stderr and "failed in cell 3" in ran.stderr


#: torch's own ways to start processes, with a class and a function of the cells.
TORCH: list[AnyCell] = [
    "import os, torch\nimport torch.multiprocessing as mp\n"
    "from torch.utils.data import DataLoader, Dataset\nSCALE = 2\nopen('runs', 'a').write('.');",
    "class Squares(Dataset):\n"
    "    def __len__(self): return 4\n"
    "    def __getitem__(self, n): return torch.tensor([float(n * n * SCALE), os.getpid()])\n"
    "def stacked(rows): return torch.stack(rows)\n"
    "def work(rank, folder):\n"
    "    open(f'{folder}/rank{rank}', 'w').write(str(rank * SCALE))",
    "for method in ('spawn', 'forkserver'):\n"
    "    loader = DataLoader(Squares(), batch_size=2, num_workers=1, collate_fn=stacked,\n"
    "                        multiprocessing_context=method)\n"
    "    rows = torch.cat(list(loader))\n"
    "    print(method, rows[:, 0].tolist(), os.getpid() in rows[:, 1].tolist())",
    "os.makedirs('ranks')\nmp.spawn(work, args=('ranks',), nprocs=2)\n"
    "print(sorted((name, open(f'ranks/{name}').read()) for name in os.listdir('ranks')))",
    "print(open('runs').read())",
]


def test_the_processes_of_torch(tmp_path: Path) -> None:
    try:
        site = str(torch_site())
    except (OSError, subprocess.SubprocessError) as error:
        unavailable(f"PyTorch cannot be installed here: {error}")
    variables = {"PYTHONPATH": site, "OMP_NUM_THREADS": "1"}
    settings = ["--set=SCALE=10"]
    ran = run_script(converted(tmp_path, TORCH), tmp_path / "s", settings, variables)
    assert ran.code == 0, ran.stderr
    squares = "[0.0, 10.0, 40.0, 90.0] False"
    assert ran.outputs[3].text == f"spawn {squares}\nforkserver {squares}"
    assert ran.outputs[4].text == "[('rank0', '0'), ('rank1', '10')]"
    assert ran.outputs[5].text == "."


@pytest.mark.parametrize(("mode", "owner"), [(0o777, 0), (0o1777, 65534), (0o755, 65534)])
def test_the_program_of_a_new_process_is_never_where_others_could_swap_it(
    mode: int, owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if owner and os.getuid():
        pytest.skip("only root can give a folder to another user")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    handle, made = children._new_file("/proc")  # where nobody can make a file
    os.close(handle)
    assert Path(made).parent == tmp_path
    os.chown(tmp_path, owner or os.getuid(), -1)
    tmp_path.chmod(mode)
    with pytest.raises(OSError, match="others can write"):
        children._new_file("/proc")
