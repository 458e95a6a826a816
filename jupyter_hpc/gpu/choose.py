"""Which source can tell about the GPUs here: simulated ones, NVIDIA's, AMD's, or none and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jupyter_hpc.errors import GpuUnavailable, NoGpu
from jupyter_hpc.gpu import amd
from jupyter_hpc.gpu.nvml import NvmlSource
from jupyter_hpc.gpu.sample import GpuSource
from jupyter_hpc.gpu.simulated import SIMULATED_VARIABLE, SimulatedSource
from jupyter_hpc.gpu.visible import wanted_devices

_NVIDIA = "0x10de"


def open_source(
    environ: Mapping[str, str],
    *,
    allocated: str | None = None,
    in_job: bool = False,
    show_all: bool = False,
    sys: Path = Path("/sys"),
) -> GpuSource:
    """The source for this job; raises GpuUnavailable with the reason when there is none.

    `allocated` is the scheduler's list of GPUs, `in_job` says that a scheduler gave this
    process its GPUs, `show_all` shows every GPU of the machine whatever they say.
    May block; called from the sampler's thread.
    """
    simulated = environ.get(SIMULATED_VARIABLE)
    if simulated:
        return SimulatedSource(Path(simulated), environ, in_job=in_job)
    restrictions: Mapping[str, str] = {} if show_all else environ
    allocated = None if show_all else allocated
    in_job = in_job and not show_all
    if amd.find_cards(sys / "class/drm"):
        wanted = wanted_devices(restrictions, amd.VARIABLES, allocated=allocated, in_job=in_job)
        return amd.AmdSource(wanted, root=sys / "class/drm")
    wanted = wanted_devices(
        restrictions, ("CUDA_VISIBLE_DEVICES",), allocated=allocated, in_job=in_job
    )
    source = NvmlSource(wanted)
    try:
        source.open()
    except GpuUnavailable as error:
        raise _explained(error, sys) from error
    return source


def _explained(error: GpuUnavailable, sys: Path) -> GpuUnavailable:
    """Tell a machine without any GPU from one whose driver is missing."""
    if "libnvidia-ml" not in error.message or _has_nvidia_hardware(sys):
        return error
    return NoGpu(
        "This machine has no GPU.",
        "Start the session on a node with GPUs to see them here.",
    )


def _has_nvidia_hardware(sys: Path) -> bool:
    for device in (sys / "bus/pci/devices").glob("*"):
        try:
            vendor = (device / "vendor").read_text(encoding="ascii").strip()
            kind = (device / "class").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if vendor == _NVIDIA and kind.startswith("0x03"):
            return True
    return False
