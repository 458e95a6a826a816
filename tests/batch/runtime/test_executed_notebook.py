"""Notebook mode: what a killed run has shown is in the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runtime import DRIVER_FILE, shipped_source
from tests.batch.notebooks import run_notebook, write_notebook

CELLS = [
    "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint('one', flush=True)",
    "import time\nprint('two', flush=True)\ntime.sleep(600)",
    "print('three')",
]


def started(
    tmp_path: Path, cells: Sequence[str] = CELLS
) -> tuple[subprocess.Popen[str], Path, str]:
    """The run, its result and its log so far, as soon as the second cell has been heard."""
    path = write_notebook(tmp_path / "a.ipynb", cells)
    (tmp_path / DRIVER_FILE).write_text(shipped_source(DRIVER_FILE), encoding="utf-8")
    result = tmp_path / "out" / "a.ipynb"
    result.parent.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / DRIVER_FILE), str(path), str(result)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    log = ""
    while "two\n" not in log and (line := process.stdout.readline()):
        log += line
    return process, result, log


def texts(result: Path) -> list[str]:
    content: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return [
        "".join(o.get("text", "") for o in cell["outputs"] if o.get("name") == "stdout")
        for cell in content["cells"]
    ]


@pytest.mark.parametrize("name", ["TERM", "KILL"])
def test_a_killed_run_keeps_its_outputs(name: str, tmp_path: Path) -> None:
    process, result, log = started(tmp_path)
    process.send_signal(signal.Signals[f"SIG{name}"])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (143 if name == "TERM" else -9), errors
    assert texts(result)[0] == "one\n"
    assert texts(result)[1] == ("two\n" if name == "TERM" else "")
    assert (result.parent / "figures" / "cell01_1.png").exists()
    assert "one" in log and "two" in log  # the log shows it while it runs


def test_usr1_saves_and_goes_on(tmp_path: Path) -> None:
    process, result, _ = started(tmp_path)
    assert texts(result)[1] == ""
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while texts(result)[1] != "two\n" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert texts(result)[1] == "two\n"
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)


def test_a_kernel_that_registered_for_usr1_is_told(tmp_path: Path) -> None:
    registered = (
        "import signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('saved', flush=True))\n"
        "print('two', flush=True)\ntime.sleep(60)"
    )
    process, _, _ = started(tmp_path, ["print('one')", registered])
    process.send_signal(signal.SIGUSR1)
    assert process.stdout is not None
    assert process.stdout.readline() == "saved\n"
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)


def test_a_failing_cell_ends_the_run_with_its_output(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", ["print(1)", "1 / 0", "print(3)"])
    ran = run_notebook(path, tmp_path / "work")
    assert ran.code == 1 and "ZeroDivisionError" in ran.stderr
    assert ran.outputs[1].text == "1" and 3 not in ran.outputs


def test_odd_metadata_is_no_obstacle(tmp_path: Path) -> None:
    odd = {"kernelspec": "python3", "language_info": ["python"]}
    path = write_notebook(tmp_path / "a.ipynb", ["print('here')"], metadata=odd)
    ran = run_notebook(path, tmp_path / "nb")
    assert ran.code == 0 and ran.outputs[1].text == "here", ran.stderr


def test_a_kernel_of_another_machine_is_replaced_and_has_no_port(tmp_path: Path) -> None:
    metadata = {"kernelspec": {"name": "conda-env-laptop-py", "language": "python"}}
    how = "import json, ipykernel\nprint(json.loads(ipykernel.get_connection_info())['transport'])"
    path = write_notebook(tmp_path / "a.ipynb", [how], metadata=metadata)
    ran = run_notebook(path, tmp_path / "work")
    assert ran.code == 0, ran.stderr
    assert ran.outputs[1].text == "ipc"  # a port could be tried by everybody on the node
    assert "no kernel 'conda-env-laptop-py' here" in ran.stderr
