"""NVIDIA GPUs through NVML (nvidia-ml-py).

Every call may fail for itself: a value that this GPU, driver or container does not
give is None, and the others stay. The binding is imported in `open`, because it
costs 50 ms that a server without panels should not pay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.sample import GpuProcess, GpuReading, Sample
from jupyter_hpc.gpu.visible import Wanted, no_gpu_in_job

#: Processes change slowly and are the dearest call: asked every so many seconds.
PROCESS_INTERVAL_SECONDS = 5.0

_SUPPORT = "This is for the site's support: name the node and this sentence."


@dataclass
class _Device:
    """A GPU or MIG instance, with what never changes and what changes slowly."""

    handle: Any
    board: Any  #: the handle of the whole GPU
    fixed: GpuReading
    processes: tuple[GpuProcess, ...] = ()


class NvmlSource:
    """Samples the NVIDIA GPUs that belong to this job."""

    label = "nvml"

    def __init__(
        self, wanted: Wanted, *, clock: Callable[[], float] = time.time, binding: Any = None
    ) -> None:
        self.driver: str | None = None
        self._wanted = wanted
        self._clock = clock
        self._nvml = binding
        self._devices: list[_Device] = []
        self._processes_at = float("-inf")

    def open(self) -> None:
        """Load the library and choose the devices; raises GpuUnavailable with the reason."""
        if self._nvml is None:
            try:
                import pynvml  # type: ignore[import-untyped]
            except ImportError as error:
                raise GpuUnavailable(
                    "The Python package nvidia-ml-py is not installed where this server runs.",
                    "Install it there: pip install nvidia-ml-py",
                ) from error
            self._nvml = pynvml
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise self._init_failure(error) from error
        self.driver = self._ask(self._nvml.nvmlSystemGetDriverVersion)
        handles = self._choose()
        if not handles:
            raise no_gpu_in_job()
        self._devices = [self._describe(index, *pair) for index, pair in enumerate(handles)]

    def read(self) -> Sample:
        """Take one sample of all devices."""
        if not self._devices:
            self.open()
        now = self._clock()
        if now - self._processes_at >= PROCESS_INTERVAL_SECONDS:
            for device in self._devices:
                device.processes = self._processes_of(device)
            self._processes_at = now
        return Sample(now, tuple(self._read_device(device) for device in self._devices))

    def close(self) -> None:
        """Shut the library down."""
        if self._devices:
            self._devices = []
            self._ask(self._nvml.nvmlShutdown)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where this GPU or driver has none."""
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None

    def _choose(self) -> list[tuple[Any, Any]]:
        """(handle, board handle) of every device to show, in the job's order."""
        nvml = self._nvml
        boards = {
            index: board
            for index in range(self._ask(nvml.nvmlDeviceGetCount) or 0)
            if (board := self._ask(nvml.nvmlDeviceGetHandleByIndex, index)) is not None
        }
        entries = self._wanted.entries
        # Where the site confines devices, the library sees the job's own GPUs only
        # and counts them from 0, whatever numbers the scheduler wrote.
        confined = len(boards) == len(entries) and all(entry.isdigit() for entry in entries)
        if self._wanted.everything or confined:
            return [pair for board in boards.values() for pair in self._instances(board)]
        chosen: list[tuple[Any, Any]] = []
        for entry in entries:
            found = self._find(entry, boards)
            if not found:
                break
            chosen += found
        return chosen

    def _find(self, entry: str, boards: Mapping[int, Any]) -> list[tuple[Any, Any]]:
        if entry.isdigit():
            return self._instances(boards[int(entry)]) if int(entry) in boards else []
        if entry.startswith("MIG-"):
            mig = self._ask(self._nvml.nvmlDeviceGetHandleByUUID, entry)
            if mig is None:
                return []
            parent = self._ask(self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig)
            return [(mig, parent if parent is not None else mig)]
        uuid = entry if entry.startswith("GPU-") else f"GPU-{entry}"
        for board in boards.values():
            if str(self._ask(self._nvml.nvmlDeviceGetUUID, board)).startswith(uuid):
                return self._instances(board)
        return []

    def _instances(self, board: Any) -> list[tuple[Any, Any]]:
        """The MIG instances of a GPU that is cut into them, else the GPU itself."""
        nvml = self._nvml
        mode = self._ask(nvml.nvmlDeviceGetMigMode, board)
        if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return [(board, board)]
        handles = (
            self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, board, index)
            for index in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, board) or 0)
        )
        return [(mig, board) for mig in handles if mig is not None] or [(board, board)]

    def _describe(self, index: int, handle: Any, board: Any) -> _Device:
        nvml = self._nvml
        name = self._ask(nvml.nvmlDeviceGetName, handle) or self._ask(nvml.nvmlDeviceGetName, board)
        limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, board)
        fixed = GpuReading(
            id=str(self._ask(nvml.nvmlDeviceGetUUID, handle) or f"gpu-{index}"),
            index=index,
            name=str(name or "NVIDIA GPU"),
            kind="gpu" if handle is board else "mig",
            power_limit=limit / 1000 if limit else None,
            clock_max=self._ask(nvml.nvmlDeviceGetMaxClockInfo, board, nvml.NVML_CLOCK_SM),
        )
        return _Device(handle, board, fixed)

    def _read_device(self, device: _Device) -> GpuReading:
        nvml, board = self._nvml, device.board
        try:
            memory = self._memory(device.handle)
        except nvml.NVMLError as error:
            return replace(device.fixed, failure=self._device_failure(device.fixed, error))
        load = self._ask(nvml.nvmlDeviceGetUtilizationRates, device.handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, board)
        return replace(
            device.fixed,
            load=float(load.gpu) if load is not None else None,
            memory_used=int(memory.used),
            memory_total=int(memory.total),
            power=power / 1000 if power is not None else None,
            temperature=self._ask(nvml.nvmlDeviceGetTemperature, board, nvml.NVML_TEMPERATURE_GPU),
            clock=self._ask(nvml.nvmlDeviceGetClockInfo, board, nvml.NVML_CLOCK_SM),
            memory_clock=self._ask(nvml.nvmlDeviceGetClockInfo, board, nvml.NVML_CLOCK_MEM),
            processes=device.processes,
        )

    def _memory(self, handle: Any) -> Any:
        """Memory as nvidia-smi shows it: the driver's own reserve is not counted as used."""
        try:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, self._nvml.nvmlMemory_v2)
        except (
            self._nvml.NVMLError_FunctionNotFound,
            self._nvml.NVMLError_NotSupported,
        ):
            return self._nvml.nvmlDeviceGetMemoryInfo(handle)

    def _processes_of(self, device: _Device) -> tuple[GpuProcess, ...]:
        found = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, device.handle)
        return tuple(GpuProcess(int(item.pid), item.usedGpuMemory) for item in found or ())

    def _device_failure(self, fixed: GpuReading, error: Exception) -> str:
        if isinstance(error, self._nvml.NVMLError_GpuIsLost):
            return (
                f"GPU {fixed.index} has been lost: the driver cannot reach it any more. "
                "Save your work and start the session on another node; tell the site's support."
            )
        return f"The driver refuses to speak about GPU {fixed.index}: {error}."

    def _init_failure(self, error: Exception) -> GpuUnavailable:
        nvml = self._nvml
        if isinstance(error, nvml.NVMLError_LibraryNotFound):
            return GpuUnavailable(
                "This machine has no NVIDIA driver library (libnvidia-ml.so.1).",
                "In a container it has to be passed in, for instance with apptainer's --nv.",
            )
        if isinstance(error, nvml.NVMLError_DriverNotLoaded):
            return GpuUnavailable("The NVIDIA driver is not loaded on this machine.", _SUPPORT)
        if isinstance(error, nvml.NVMLError_LibRmVersionMismatch):
            return GpuUnavailable(
                "The NVIDIA driver and its library have different versions on this machine; "
                "it was updated and not restarted.",
                _SUPPORT,
            )
        if isinstance(error, nvml.NVMLError_NoPermission):
            return GpuUnavailable("This job may not use the NVIDIA driver.", _SUPPORT)
        return GpuUnavailable(f"The NVIDIA driver library does not start: {error}.", _SUPPORT)
