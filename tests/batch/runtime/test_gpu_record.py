"""The GPU record of a job: right lines, little cost, and silence where there is no GPU."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from jupyter_hpc.batch.runtime import SIDECAR_FILE, shipped_source
from jupyter_hpc.batch.runtime.job.gpu_record import GPU_HEADER
from jupyter_hpc.gpu.recording import read_recording
from tests.gpu.library import library_folder


@pytest.fixture
def sidecar(tmp_path: Path) -> Path:
    path = tmp_path / SIDECAR_FILE
    path.write_text(shipped_source(SIDECAR_FILE), encoding="utf-8")
    return path


#: As a job starts it: signals that come before it listens do not end it.
START = "trap '' USR1 USR2 TERM; exec \"$@\""


@contextmanager
def recording(sidecar: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The sidecar, which has recorded its first sample or said why not; it is ended after."""
    file, log = sidecar.parent / "gpu-usage.csv", sidecar.parent / "log"
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            ["sh", "-c", START, "sh", sys.executable, str(sidecar), "run", "--gpus", str(file)],
            env={"PATH": "/usr/bin:/bin", **environment},
            stderr=stderr,
        )
    try:
        deadline = time.monotonic() + 60
        while not (file.exists() and file.stat().st_size) and not log.read_text():
            assert time.monotonic() < deadline, "neither a sample nor a reason"
            time.sleep(0.05)
        yield process
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGUSR2)  # a job says it again, also at its last moment
        assert process.poll() == 0
    finally:
        process.kill()
        process.wait()


def record(sidecar: Path, **environment: str) -> tuple[Path, str]:
    """Let the sidecar record a sample; the file and what it logged."""
    with recording(sidecar, **environment):
        pass
    return sidecar.parent / "gpu-usage.csv", (sidecar.parent / "log").read_text(encoding="utf-8")


def test_the_gpus_of_the_job_are_recorded(sidecar: Path) -> None:
    library = str(library_folder())
    file, errors = record(
        sidecar, LD_LIBRARY_PATH=library, FAKE_NVML_GPUS="4", FAKE_NVML_LOAD="37",
        CUDA_VISIBLE_DEVICES="1,3",
    )  # fmt: skip
    assert file.exists(), errors
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(GPU_HEADER)
    assert [line.split(",")[2] for line in lines[1:3]] == ["1", "3"]
    assert all(line.split(",")[4] == "37.0" for line in lines[1:])
    assert len(read_recording(file).gpus) == 2


def test_nvidia_smi_is_the_second_choice(sidecar: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho '0, GPU-1, NVIDIA A100, 55, 1024, 40960, 120.5, 60'\n"
        "echo '1, GPU-2, NVIDIA A100, [N/A], 0, 40960, [N/A], 30'\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    file, errors = record(sidecar, PATH=f"{program.parent}:/usr/bin:/bin")
    assert file.exists(), errors
    rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    assert rows[0][2:] == ["0", "NVIDIA A100", "55.0", "1024.0", "40960.0", "120.5", "60.0"]
    assert rows[1][4] == "" and rows[1][7] == ""


def test_simulated_gpus_say_so(sidecar: Path, tmp_path: Path) -> None:
    state = tmp_path / "gpus.json"
    gpu = {"index": 0, "name": "Demo", "load": 10.2, "memory_used": 2**20, "memory_total": 2**30}
    state.write_text(json.dumps({"time": time.time(), "gpus": [gpu]}), encoding="utf-8")
    file, _ = record(sidecar, JUPYTER_HPC_SIMULATED_GPUS=str(state))
    assert ",Demo (simulated),10.2,1.0,1024.0,," in file.read_text(encoding="utf-8")


def test_without_gpus_nothing_is_recorded_and_it_is_said_once(sidecar: Path) -> None:
    file, errors = record(sidecar)
    assert not file.exists() and errors.count("GPUs are not recorded") == 1


def test_recording_takes_less_than_one_percent_of_a_core(sidecar: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(library_folder()), "FAKE_NVML_GPUS": "8"}
    file = sidecar.parent / "gpu-usage.csv"

    def spent() -> float:
        times = psutil.Process(process.pid).cpu_times()
        return float(times.user + times.system)

    with recording(sidecar, **environment) as process:
        began, before = time.monotonic(), spent()
        while len(file.read_text(encoding="utf-8").splitlines()) <= 8 * 2:  # the second sample
            assert time.monotonic() < began + 60
            time.sleep(0.1)
        assert spent() - before < 0.01 * (time.monotonic() - began)
