"""AMD GPUs, from files as the amdgpu driver keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.amd import AmdSource, find_cards
from jupyter_hpc.gpu.choose import open_source
from jupyter_hpc.gpu.visible import Wanted


def make_card(root: Path, number: int, bus: str, vendor: str = "0x1002") -> Path:
    device = root / "devices" / bus
    sensors = device / "hwmon/hwmon3"
    sensors.mkdir(parents=True)
    drm = root / "class/drm"
    (drm / f"card{number}").mkdir(parents=True)
    (drm / f"card{number}-DP-1").mkdir()
    (drm / f"card{number}/device").symlink_to(device)
    for name, text in {
        "vendor": vendor,
        "gpu_busy_percent": "73",
        "mem_info_vram_total": str(64 << 30),
        "mem_info_vram_used": str(number << 30),
        "unique_id": f"{number:016x}",
        "product_name": "Invented MI300",
        "hwmon/hwmon3/power1_average": "250000000",
        "hwmon/hwmon3/power1_cap": "500000000",
        "hwmon/hwmon3/temp1_input": "61000",
        "hwmon/hwmon3/freq1_input": "1700000000",
    }.items():
        (device / name).write_text(text + "\n")
    return device


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    make_card(tmp_path, 1, "0000:41:00.0")
    make_card(tmp_path, 2, "0000:01:00.0")
    make_card(tmp_path, 3, "0000:99:00.0", vendor="0x8086")
    return tmp_path


def test_cards_in_bus_order_and_only_amd(sys: Path) -> None:
    assert [card.resolve().name for card in find_cards(sys / "class/drm")] == [
        "0000:01:00.0",
        "0000:41:00.0",
    ]


def test_all_values_in_our_units(sys: Path) -> None:
    gpu = AmdSource(Wanted(True), root=sys / "class/drm").read().gpus[0]
    assert (gpu.name, gpu.load, gpu.memory_used) == ("Invented MI300", 73.0, 2 << 30)
    assert (gpu.power, gpu.power_limit, gpu.temperature) == (250.0, 500.0, 61.0)
    assert (gpu.clock, gpu.memory_clock) == (1700.0, None)
    assert gpu.id == "GPU-0000000000000002"


def test_chosen_by_number_and_by_id(sys: Path) -> None:
    for entry in ("1", "GPU-0000000000000001"):
        source = AmdSource(Wanted(False, (entry,)), root=sys / "class/drm")
        assert [gpu.id[-1] for gpu in source.read().gpus] == ["1"]


def test_a_value_that_goes_away_is_missing(sys: Path) -> None:
    source = AmdSource(Wanted(True), root=sys / "class/drm")
    (sys / "devices/0000:01:00.0/gpu_busy_percent").write_text("")
    assert source.read().gpus[0].load is None
    assert source.read().gpus[1].load == 73.0


def test_amd_is_chosen_where_there_are_such_cards(sys: Path) -> None:
    source = open_source({"ROCR_VISIBLE_DEVICES": "0"}, in_job=True, sys=sys)
    assert source.label == "amd"
    assert len(source.read().gpus) == 1


def test_processes_and_their_memory(sys: Path) -> None:
    (sys / "devices/0000:01:00.0/drm/renderD129").mkdir(parents=True)
    kfd = sys / "class/kfd/kfd"
    for number, minor in (("0", 0), ("1", 128), ("2", 129)):
        node = kfd / "topology/nodes" / number
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"70{number}\n")
        (node / "properties").write_text(f"cpu_cores_count 0\ndrm_render_minor {minor}\n")
    for pid, memory in (("41", "1024"), ("42", "0")):
        (kfd / "proc" / pid).mkdir(parents=True)
        (kfd / "proc" / pid / "vram_702").write_text(memory)
    first, second = AmdSource(Wanted(True), root=sys / "class/drm").read().gpus
    assert [(process.pid, process.memory) for process in first.processes] == [(41, 1024)]
    assert second.processes == ()


def test_no_card_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(GpuUnavailable, match="no AMD GPU"):
        AmdSource(Wanted(True), root=tmp_path)


def test_none_of_the_cards_is_ours(sys: Path) -> None:
    with pytest.raises(GpuUnavailable, match="This job has no GPU"):
        AmdSource(Wanted(False, ("9",)), root=sys / "class/drm")
