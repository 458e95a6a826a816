"""NVIDIA GPUs, through the real binding and a real shared library."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.choose import open_source
from jupyter_hpc.gpu.nvml import PROCESS_INTERVAL_SECONDS, NvmlSource
from jupyter_hpc.gpu.sample import GpuReading
from jupyter_hpc.gpu.visible import Wanted
from tests.gpu.conftest import SetUp

ALL = Wanted(everything=True)


def read(wanted: Wanted = ALL) -> tuple[GpuReading, ...]:
    source = NvmlSource(wanted)
    try:
        return source.read().gpus
    finally:
        source.close()


def named(*entries: str) -> Wanted:
    return Wanted(everything=False, entries=entries)


def test_eight_gpus_with_everything_known(nvml: SetUp) -> None:
    gpus = read()
    assert [gpu.index for gpu in gpus] == list(range(8))
    third = gpus[3]
    assert third.id == "GPU-00000000-0003"
    assert (third.name, third.kind, third.load) == ("Invented A100", "gpu", 30.0)
    assert (third.memory_used, third.memory_total) == (4 << 29, 40 << 30)
    assert (third.power, third.power_limit, third.temperature) == (100.5, 400.0, 43)
    assert (third.clock, third.clock_max, third.memory_clock) == (1410, 1980, 1215)


def test_the_driver_is_named(nvml: SetUp) -> None:
    source = NvmlSource(ALL)
    source.read()
    assert source.driver == "999.42"


def test_only_the_gpus_of_this_job_by_number(nvml: SetUp) -> None:
    gpus = read(named("2", "5"))
    assert [(gpu.index, gpu.id[-4:]) for gpu in gpus] == [(0, "0002"), (1, "0005")]


def test_only_the_gpus_of_this_job_by_uuid_and_its_beginning(nvml: SetUp) -> None:
    assert [gpu.id[-4:] for gpu in read(named("GPU-00000000-0006", "00000000-0001"))] == [
        "0006",
        "0001",
    ]


def test_what_follows_an_unknown_entry_is_hidden_as_cuda_does_it(nvml: SetUp) -> None:
    assert [gpu.id[-4:] for gpu in read(named("1", "99", "2"))] == ["0001"]


def test_confined_devices_are_taken_whatever_their_numbers(nvml: SetUp) -> None:
    nvml(gpus=4, forbidden="0,1")
    assert [gpu.id[-4:] for gpu in read(named("0", "1"))] == ["0002", "0003"]


def test_numbers_still_count_all_gpus_where_some_are_forbidden(nvml: SetUp) -> None:
    nvml(gpus=4, forbidden="0")
    assert [gpu.id[-4:] for gpu in read(named("2"))] == ["0002"]


def test_mig_instances_instead_of_their_gpu(nvml: SetUp) -> None:
    nvml(gpus=2, mig="1")
    gpus = read()
    assert [gpu.kind for gpu in gpus] == ["gpu", "mig", "mig"]
    part = gpus[2]
    assert part.id == "MIG-00000000-0001-2"
    assert part.name == "Invented A100 MIG 1g.5gb"
    assert part.load is None
    assert part.memory_total == 5 << 30
    assert part.power == 100.5


def test_one_mig_instance_by_its_uuid(nvml: SetUp) -> None:
    nvml(gpus=2, mig="1")
    (part,) = read(named("MIG-00000000-0001-0"))
    assert (part.kind, part.index, part.temperature) == ("mig", 0, 41)


def test_a_value_that_fails_is_missing_and_the_others_stay(nvml: SetUp) -> None:
    nvml(fail="nvmlDeviceGetPowerUsage:3,nvmlDeviceGetTemperature:999,nvmlDeviceGetMigMode:13")
    gpu = read()[0]
    assert (gpu.power, gpu.temperature) == (None, None)
    assert gpu.memory_used == 1 << 29
    assert gpu.failure is None


def test_an_older_driver_gives_memory_the_older_way(nvml: SetUp) -> None:
    nvml(fail="nvmlDeviceGetMemoryInfo_v2:13")
    assert read()[0].memory_used == 1 << 30


def test_a_lost_gpu_says_so_and_the_others_stay(nvml: SetUp) -> None:
    nvml(lost="3")
    gpus = read()
    assert gpus[3].failure is not None and "GPU 3 has been lost" in gpus[3].failure
    assert gpus[3].memory_used is None
    assert gpus[4].failure is None and gpus[4].load == 40.0


def test_processes_with_their_memory_are_asked_for_seldom(nvml: SetUp) -> None:
    nvml(process=f"1:{os.getpid()}:1048576")
    now = [1000.0]
    source = NvmlSource(ALL, clock=lambda: now[0])
    (process,) = source.read().gpus[1].processes
    assert (process.pid, process.memory) == (os.getpid(), 1048576)
    nvml(process="1:7:5")
    assert source.read().gpus[1].processes == (process,)
    now[0] += PROCESS_INTERVAL_SECONDS
    assert source.read().gpus[1].processes[0].pid == 7


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (9, "The NVIDIA driver is not loaded on this machine."),
        (18, "different versions"),
        (4, "This job may not use the NVIDIA driver."),
        (999, "does not start"),
    ],
)
def test_a_library_that_does_not_start_says_why(nvml: SetUp, code: int, sentence: str) -> None:
    nvml(fail=f"nvmlInitWithFlags:{code}")
    with pytest.raises(GpuUnavailable, match=sentence) as raised:
        read()
    assert raised.value.hint


def test_a_machine_without_any_gpu_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    with pytest.raises(GpuUnavailable, match="This machine has no GPU"):
        open_source({}, sys=tmp_path)


def test_hardware_without_its_library_is_told_from_no_hardware(tmp_path: Path) -> None:
    device = tmp_path / "bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    with pytest.raises(GpuUnavailable, match=r"no NVIDIA driver library \(libnvidia-ml.so.1\)"):
        open_source({}, sys=tmp_path)


def test_no_gpu_left_after_choosing_is_no_gpu_in_the_job(nvml: SetUp) -> None:
    nvml(gpus=2)
    with pytest.raises(GpuUnavailable, match="This job has no GPU"):
        read(named("7"))
