"""Verification: equal is said to be equal, and a wrong conversion is found."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hpc.batch.verify.outputs import normal
from jupyter_hpc.batch.verify.verify import Verification, small_budget, verify
from jupyter_hpc.runner import LocalRunner
from tests.batch.notebooks import converted

CELLS = [
    "import random, matplotlib.pyplot as plt\nEPOCHS = 50",
    "for epoch in range(EPOCHS):\n    print('epoch', epoch)",
    "plt.plot([1, 2])\nplt.show()\n{'done': EPOCHS}",
    "print(open('data.txt').read())\nopen('data.txt', 'w').write('changed');",
    "print(random.random())",
]


async def test_equal(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("kept", encoding="utf-8")
    conversion = converted(tmp_path, CELLS)
    found = await verify(tmp_path / "a.ipynb", conversion, LocalRunner(), seconds=60)
    # Only the random number differs; a second run of the notebook shows that it always does.
    assert found.equal is True, found
    assert found.overrides == {"EPOCHS": 1} and found.compared == (1, 2, 3, 4, 5)
    assert found.message == (
        "Equal in all 5 cells. Both ran with EPOCHS = 1. "
        "Not compared: cell 5 (differs between two runs of the notebook)."
    )
    assert (tmp_path / "data.txt").read_text(encoding="utf-8") == "kept"


async def test_a_strict_comparison_wants_a_notebook_that_ends_and_repeats(tmp_path: Path) -> None:
    async def strictly(*cells: str) -> Verification:
        conversion = converted(tmp_path, list(cells))
        path = tmp_path / "a.ipynb"
        return await verify(path, conversion, LocalRunner(), seconds=60, strict=True)

    fails = await strictly("print(1)", "not_defined")
    assert fails.equal is None
    assert fails.message == (
        "The notebook did not come to its end: NameError: name 'not_defined' is not defined."
    )
    # Both runs of the first pair say 1: only the second run of the notebook says 2.
    count = "from pathlib import Path\nfile = Path({!r})\nruns = len(file.read_text())\n"
    (tmp_path / "runs").write_text("")
    once = count + "file.write_text('.' * (runs + 1))\nprint(max(runs, 1))"
    varies = await strictly(once.format(str(tmp_path / "runs")))
    assert varies.equal is True and not varies.stable


async def test_a_wrong_conversion_is_found(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("kept", encoding="utf-8")
    conversion = converted(tmp_path, ["!pip install nothing\n" + CELLS[0], *CELLS[1:4]])
    script = conversion.script.replace("'epoch', epoch", "'epoch', 7")
    script = script.replace("plt.show()", "plt.close()")
    wrong = replace(conversion, script=script)
    found = await verify(tmp_path / "a.ipynb", wrong, LocalRunner(), seconds=60)
    assert found.equal is False
    assert found.message == (
        "Notebook and script differ in cell 2, 3. Both ran with EPOCHS = 1. "
        "Not compared: cell 1 (moved to the prepare step)."
    )
    assert [(d.cell, d.what, d.notebook, d.script) for d in found.differences] == [
        (2, "text", "epoch 0", "epoch 7"),
        (3, "figures", "1", "0"),
    ]


FILES = [
    "import os, time, pathlib\nopen('old.txt', 'w').write('new')\nos.remove('gone.txt')\n"
    "os.mkdir('deep')\npathlib.Path('deep/weights').write_bytes(bytes(9))\n"
    "pathlib.Path('when').write_text(str(time.time_ns()));",
]


async def test_files_written_are_compared(tmp_path: Path) -> None:
    for name in ("old.txt", "gone.txt", "kept.txt"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    conversion = converted(tmp_path, FILES)

    async def with_script(old: str, new: str) -> Verification:
        changed = replace(conversion, script=conversion.script.replace(old, new))
        return await verify(tmp_path / "a.ipynb", changed, LocalRunner(), seconds=60)

    same = await with_script("", "")
    assert same.equal is True, same
    assert same.not_compared == ("the file when (differs between two runs of the notebook)",)
    other = await with_script("bytes(9)", "bytes(8)")
    assert other.equal is False
    assert other.message.startswith("Notebook and script differ in the file deep/weights.")
    kept = await with_script("os.remove('gone.txt')", "open('more', 'w').close()")
    assert [(d.what, d.notebook, d.script) for d in kept.differences] == [
        ("the file gone.txt", "deleted", "not written"),
        ("the file more", "not written", "written"),
    ]


async def test_pictures_are_compared_where_the_notebook_repeats_them(tmp_path: Path) -> None:
    cells = [
        "import matplotlib.pyplot as plt, random\nplt.plot([1, 2]);",
        "plt.plot([random.random(), 1])\nplt.show()",
    ]
    conversion = converted(tmp_path, cells)
    found = await verify(tmp_path / "a.ipynb", conversion, LocalRunner(), seconds=60)
    assert found.equal is True, found
    assert found.not_compared == ("cell 2 (differs between two runs of the notebook)",)
    wrong = replace(conversion, script=conversion.script.replace("plot([1, 2])", "plot([1, 3])"))
    found = await verify(tmp_path / "a.ipynb", wrong, LocalRunner(), seconds=60)
    assert [(d.cell, d.what, d.notebook) for d in found.differences] == [
        (1, "pictures", "picture 1")
    ]


async def test_figures_that_a_browser_draws_live_are_not_counted(tmp_path: Path) -> None:
    cells = ["%matplotlib notebook\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);\nprint(1)"]
    conversion = converted(tmp_path, cells)
    found = await verify(tmp_path / "a.ipynb", conversion, LocalRunner(), seconds=60)
    assert found.equal is True, found
    assert found.not_compared == ("figures of cell 1 (drawn live)",)


@pytest.mark.parametrize("pause", [600, 0], ids=["both are slow", "the script goes on and fails"])
async def test_what_both_reached_within_the_budget_is_compared(tmp_path: Path, pause: int) -> None:
    cells = ["print('a')", "print('b')", "import time\ntime.sleep(600)", "not_defined"]
    conversion = converted(tmp_path, cells)
    script = conversion.script.replace("sleep(600)", f"sleep({pause})")
    faster = replace(conversion, script=script)
    found = await verify(tmp_path / "a.ipynb", faster, LocalRunner(), seconds=20)
    assert found.equal is True and "that both reached" in found.message
    assert not found.notebook_done and not found.script_done


async def test_what_the_report_says_is_dropped_is_no_difference(tmp_path: Path) -> None:
    cells = ["%lsmagic", "print('a')\n%xmode Plain\nprint('b')", "%history -n 1-2\n1"]
    conversion = converted(tmp_path, cells)
    found = await verify(tmp_path / "a.ipynb", conversion, LocalRunner(), seconds=60)
    assert found.equal is True, found
    script = conversion.script.replace("print('a')", "print('x')", 1)
    wrong = replace(conversion, script=script)
    found = await verify(tmp_path / "a.ipynb", wrong, LocalRunner(), seconds=60)
    assert [difference.cell for difference in found.differences] == [2]


async def test_odd_files_beside_the_notebook_are_no_obstacle(tmp_path: Path) -> None:
    conversion = converted(tmp_path, ["print(open('data/x').read())"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("here", encoding="utf-8")
    (tmp_path / "data" / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "data" / "pipe")
    (tmp_path / "unreadable").symlink_to("/proc/self/mem")
    outcome = await verify(tmp_path / "a.ipynb", conversion, LocalRunner(), seconds=60)
    assert outcome.equal is True and outcome.compared == (1,), outcome


async def test_large_files_that_the_code_writes_are_not_those_of_the_notebook(
    tmp_path: Path,
) -> None:
    cells = [
        "with open('seen.bin', 'r+b') as file:\n    file.write(b'new')",
        "with open('hidden.bin', chr(114) + '+b') as file:\n    file.write(b'new')",
    ]
    conversion = converted(tmp_path, cells)
    for name in ("seen.bin", "hidden.bin", "read.bin"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(21_000_000)
    outcome = await verify(tmp_path / "a.ipynb", conversion, LocalRunner(), seconds=60)
    assert outcome.equal is True, outcome
    with open(tmp_path / "seen.bin", "rb") as file:
        assert file.read(3) == bytes(3)
    assert f"by them or by others: {tmp_path}/hidden.bin." in outcome.message


def test_the_budget_shortens_trainings_only(tmp_path: Path) -> None:
    cells = [
        "num_epochs = 20\nsteps = 1\nlr = 3\nmax_iter = 500",
        "num_epochs, steps, lr, max_iter",
    ]
    assert small_budget(converted(tmp_path, cells)) == {"num_epochs": 1, "steps": 1, "max_iter": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m\n", "red"),
        ("10%\r50%\r100%\nend\n", "100%\nend"),
        ("<object at 0x7f00deadbeef>", "<object at 0x…>"),
        ("CPU times: user 1 s\nWall time: 2 s\nx", "x"),
        ("took 3.25 s", "took …s"),
        ("<Figure size 640x480 with 1 Axes>\n", ""),
        ("abc\b\bX", "aX"),
    ],
)
def test_what_differs_between_any_two_runs_is_left_out(text: str, expected: str) -> None:
    assert normal(text) == expected
