"""AMD GPUs through the files that the amdgpu driver keeps in sysfs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.sample import GpuProcess, GpuReading, Sample
from jupyter_hpc.gpu.visible import Wanted, no_gpu_in_job

_AMD = "0x1002"

#: Processes change slowly: looked for every so many seconds.
PROCESS_INTERVAL_SECONDS = 5.0

#: Which variables choose AMD devices, the strongest first.
VARIABLES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def find_cards(root: Path = Path("/sys/class/drm")) -> list[Path]:
    """The device folders of all AMD GPUs that can compute, in bus order."""
    devices: dict[str, Path] = {}
    for card in sorted(root.glob("card[0-9]*")):
        device = card / "device"
        if "-" in card.name or _text(device / "vendor") != _AMD:
            continue  # "card0-DP-1" is a socket for a screen
        if (device / "gpu_busy_percent").exists() and (device / "mem_info_vram_total").exists():
            devices[device.resolve().name] = device
    return [devices[name] for name in sorted(devices)]


class AmdSource:
    """Samples AMD GPUs."""

    label = "amd"

    def __init__(
        self,
        wanted: Wanted,
        *,
        root: Path = Path("/sys/class/drm"),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.driver = _text(Path("/sys/module/amdgpu/version"))
        self._clock = clock
        self._kfd = root.parent / "kfd/kfd"
        cards = find_cards(root)
        if not cards:
            raise GpuUnavailable(
                "This machine has no AMD GPU with the amdgpu driver.",
                "If the node has one, its driver is not loaded: tell the site's support.",
            )
        self._cards = cards if wanted.everything else _choose(cards, wanted.entries)
        if not self._cards:
            raise no_gpu_in_job()
        self._processes: list[tuple[GpuProcess, ...]] = []
        self._processes_at = float("-inf")

    def read(self) -> Sample:
        """Take one sample of all cards."""
        now = self._clock()
        if now - self._processes_at >= PROCESS_INTERVAL_SECONDS:
            self._processes = [_processes(card, self._kfd) for card in self._cards]
            self._processes_at = now
        return Sample(
            now,
            tuple(
                replace(_read(index, card), processes=self._processes[index])
                for index, card in enumerate(self._cards)
            ),
        )

    def close(self) -> None:
        """Nothing is held open."""


def _choose(cards: list[Path], entries: tuple[str, ...]) -> list[Path]:
    chosen: list[Path] = []
    for entry in entries:
        if entry.isdigit():
            found = cards[int(entry)] if int(entry) < len(cards) else None
        else:
            wanted = entry.removeprefix("GPU-").removeprefix("0x").lower()
            found = next((card for card in cards if _text(card / "unique_id") == wanted), None)
        if found is None:
            break
        chosen.append(found)
    # Where the site confines devices, numbers may count in another order than ours.
    return chosen or (cards if len(cards) == len(entries) else [])


def _read(index: int, card: Path) -> GpuReading:
    sensors = next(iter(sorted(card.glob("hwmon/hwmon*"))), card / "hwmon")
    power = _number(sensors / "power1_average") or _number(sensors / "power1_input")
    unique = _text(card / "unique_id")
    return GpuReading(
        id=f"GPU-{unique}" if unique else card.resolve().name,
        index=index,
        name=_text(card / "product_name") or "AMD GPU",
        load=_number(card / "gpu_busy_percent"),
        memory_used=_whole(card / "mem_info_vram_used"),
        memory_total=_whole(card / "mem_info_vram_total"),
        power=_scaled(power, 1e6),
        power_limit=_scaled(_number(sensors / "power1_cap"), 1e6),
        temperature=_scaled(_number(sensors / "temp1_input"), 1e3),
        clock=_scaled(_number(sensors / "freq1_input"), 1e6),
        memory_clock=_scaled(_number(sensors / "freq2_input"), 1e6),
    )


def _processes(card: Path, kfd: Path) -> tuple[GpuProcess, ...]:
    """Who holds memory of a card, as the compute driver (kfd) counts it."""
    gpu_id = _kfd_id(card, kfd)
    if gpu_id is None:
        return ()
    found = []
    for file in sorted(kfd.glob(f"proc/[0-9]*/vram_{gpu_id}")):
        memory = _whole(file)
        if memory:
            found.append(GpuProcess(int(file.parent.name), memory))
    return tuple(found)


def _kfd_id(card: Path, kfd: Path) -> str | None:
    """The number under which the compute driver knows a card: both name its render node."""
    minors = [node.name.removeprefix("renderD") for node in card.glob("drm/renderD*")]
    for node in kfd.glob("topology/nodes/*"):
        properties = (_text(node / "properties") or "").splitlines()
        if any(f"drm_render_minor {minor}" in properties for minor in minors):
            return _text(node / "gpu_id")
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _number(path: Path) -> float | None:
    try:
        return float(_text(path) or "")
    except ValueError:
        return None


def _whole(path: Path) -> int | None:
    number = _number(path)
    return None if number is None else int(number)


def _scaled(number: float | None, unit: float) -> float | None:
    return None if number is None else number / unit
