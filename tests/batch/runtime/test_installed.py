"""What a job finds installed: listed beside it, for its report, and never in its way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.batch.runtime import SIDECAR_FILE, shipped_source
from jupyter_hpc.batch.runtime.job import installed
from jupyter_hpc.batch.runtime.job.marks import ENVIRONMENT
from jupyter_hpc.batch.submit.results import results_of
from jupyter_hpc.batch.submit.runs import note_run
from jupyter_hpc.runner import LocalRunner


async def test_the_sidecar_lists_what_is_there_and_it_is_no_result(tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "run/output"
    output.mkdir(parents=True)
    (output / "a.csv").write_text("1")
    sidecar = run / SIDECAR_FILE
    sidecar.write_text(shipped_source(SIDECAR_FILE), encoding="utf-8")
    process = subprocess.Popen(
        [
            *("sh", "-c", "trap '' USR1 USR2 TERM; echo; exec \"$@\"", "sh", sys.executable),
            *(str(sidecar), "run", "--environment", str(output)),
        ],
        env={"PATH": "/usr/bin:/bin", "LOADEDMODULES": "gcc/13:cuda/12"},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGUSR2)  # as after a program that ended at once
            time.sleep(0.1)
        assert process.poll() == 0
    finally:
        process.kill()
        process.wait()
    found = json.loads((output / ENVIRONMENT).read_text())
    assert found["packages"]["click"] == metadata.version("click")
    assert (found["executable"], found["modules"]) == (sys.executable, ["gcc/13", "cuda/12"])
    runner = LocalRunner({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    await note_run(runner, "7", str(run))
    assert [file.path for file in (await results_of(runner, "7")).files] == ["a.csv"]
    assert sorted(os.listdir(output)) == [ENVIRONMENT, "a.csv"]


def test_half_an_installation_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"good": "Name: good\nVersion: 1\n", "bad": "", "odd": "\udcff"}.items():
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(text, encoding="utf-8", errors="surrogateescape")
    (tmp_path / "none-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delenv("LOADEDMODULES", raising=False)
    found = installed.installed()
    assert (found["packages"], found["modules"]) == ({"good": "1"}, [])


def test_a_folder_that_cannot_be_written_is_said_and_nothing_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed.note_installed(tmp_path / "gone")
    assert "installed packages was not written" in capsys.readouterr().err
    (tmp_path / ENVIRONMENT).mkdir()
    installed.note_installed(tmp_path)
    assert os.listdir(tmp_path) == [ENVIRONMENT]


def test_a_file_server_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: Any) -> None:
        time.sleep(60)

    monkeypatch.setattr(installed, "note_installed", hang)
    monkeypatch.setattr(installed, "LAST_WAIT_SECONDS", 0.1)
    began = time.monotonic()
    installed.InstalledNote(tmp_path).close()
    assert time.monotonic() - began < 30


def test_the_end_waits_for_a_list_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(folder: Path) -> None:
        time.sleep(0.5)
        (folder / ENVIRONMENT).touch()

    monkeypatch.setattr(installed, "note_installed", slow)
    installed.InstalledNote(tmp_path).close()
    assert (tmp_path / ENVIRONMENT).exists()
