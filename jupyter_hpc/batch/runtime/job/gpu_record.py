"""Records the GPUs of a job: one line for each GPU and sample, in gpu-usage.csv.

Asks NVIDIA's library itself, or nvidia-smi where the library cannot be loaded. One
sample takes about a millisecond, so that recording costs far less than 1 % of a core.
"""

from __future__ import annotations

import csv
import ctypes
import importlib
import io
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from typing import Any

from jupyter_hpc.batch.runtime.log import log

GPU_HEADER = (
    *("time", "host", "gpu", "name", "load", "memory_mib", "memory_total_mib", "power_w"),
    "temperature_c",
)
_QUERY = "index,uuid,name,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu"
_MIB = 1024 * 1024

# A row is one GPU: number, UUID, name, load, memory, total memory (MiB), power (W),
# temperature; what the GPU does not tell is None.


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [
        *(("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong)),
        ("used", ctypes.c_ulonglong),
    ]


class _Nvml:
    """NVIDIA's management library; calls that a GPU does not support give None."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        with_flags = getattr(self.library, "nvmlInitWithFlags", None)
        code = with_flags(0) if with_flags is not None else self.library.nvmlInit_v2()
        if code:
            raise OSError(f"NVML answers with code {code}")

    def _ask(self, name: str, *arguments: Any) -> bool:
        function = getattr(self.library, name, None)
        return function is not None and function(*arguments) == 0

    def rows(self) -> list[Any]:
        count = ctypes.c_uint()
        if not self._ask("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return []
        rows = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self._ask("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle)):
                rows.append(self._row(index, handle))
        return rows

    def _row(self, index: int, handle: Any) -> Any:
        load, memory = _Utilization(), _Memory()
        power, heat = ctypes.c_uint(), ctypes.c_uint()
        has_load = self._ask("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(load))
        has_memory = self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        has_power = self._ask("nvmlDeviceGetPowerUsage", handle, ctypes.byref(power))
        has_heat = self._ask("nvmlDeviceGetTemperature", handle, 0, ctypes.byref(heat))
        return (
            index,
            self._text("nvmlDeviceGetUUID", handle),
            self._text("nvmlDeviceGetName", handle),
            float(load.gpu) if has_load else None,
            memory.used / _MIB if has_memory else None,
            memory.total / _MIB if has_memory else None,
            power.value / 1000 if has_power else None,
            float(heat.value) if has_heat else None,
        )

    def _text(self, name: str, handle: Any) -> str:
        buffer = ctypes.create_string_buffer(96)
        return (
            buffer.value.decode("utf-8", "replace") if self._ask(name, handle, buffer, 96) else ""
        )


def _from_nvidia_smi() -> list[Any]:
    command = ["nvidia-smi", "--query-gpu=" + _QUERY, "--format=csv,noheader,nounits"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=30, check=True)
    rows = []
    for line in csv.reader(io.StringIO(done.stdout.decode("utf-8", "replace"))):
        words = [word.strip() for word in line]
        if len(words) == 8:
            numbers = [_number(word) for word in words[3:]]
            rows.append((int(words[0]), words[1], words[2], *numbers))
    return rows


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _from_demo() -> list[Any]:
    """The invented GPUs of the embedded cluster, which are always called simulated."""
    with open(os.environ["JUPYTER_HPC_SIMULATED_GPUS"], encoding="utf-8") as file:
        gpus = json.load(file)["gpus"]
    rows: list[Any] = []
    for gpu in gpus:
        used, total = gpu.get("memory_used"), gpu.get("memory_total")
        name = "{} (simulated)".format(gpu.get("name", "GPU"))
        memory = [None if value is None else value / _MIB for value in (used, total)]
        rest = (gpu.get("power"), gpu.get("temperature"))
        rows.append((int(gpu.get("index", len(rows))), "", name, gpu.get("load"), *memory, *rest))
    return rows


def _is_ours(row: Any) -> bool:
    """Whether a GPU is one of those that the job may use."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return True
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    return str(row[0]) in wanted or any(
        row[1].startswith(word) for word in wanted if not word.isdigit() and row[1]
    )


def gpu_source() -> Callable[[], list[Any]] | None:
    """The way to ask for GPUs that works on this machine, if there is one."""
    if os.environ.get("JUPYTER_HPC_SIMULATED_GPUS"):
        return _from_demo
    try:
        nvml = _Nvml()
        return nvml.rows
    except (OSError, AttributeError):
        pass
    try:
        _from_nvidia_smi()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return _from_nvidia_smi


class GpuRecorder:
    """Appends samples to a file; each sample is one write of whole lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.source = gpu_source()
        if self.source is None:
            log("GPUs are not recorded: neither NVIDIA's library nor nvidia-smi answers here")

    def sample(self) -> None:
        """Write one line for each GPU; a failure is logged once and ends the recording."""
        if self.source is None:
            return
        try:
            rows = self.source()
            # Inside a job that sees only its own GPUs, their numbers start at 0 again.
            ours = [row for row in rows if _is_ours(row)] or rows
            text = io.StringIO()
            lines = csv.writer(text, lineterminator="\n")
            if not os.path.exists(self.path):
                lines.writerow(GPU_HEADER)
            now, host = f"{time.time():.1f}", platform.node().split(".")[0]
            for row in ours:
                values = ["" if v is None else f"{v:.1f}" for v in row[3:]]
                lines.writerow((now, host, row[0], row[2], *values))
            with open(self.path, "a", encoding="utf-8", newline="") as file:
                file.write(text.getvalue())
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            log(f"the recording of GPUs has ended: {error}")
            self.source = None


def check_gpu() -> int:
    """Whether PyTorch can use a GPU here; if not, say what to do. For the start of a job."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        log(f"PyTorch cannot be imported in this environment: {error}")
        log("activate another environment, or install torch in this one on the login node")
        return 1
    if torch.cuda.is_available():
        log(f"PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPU(s)")
        return 0
    log(f"PyTorch {torch.__version__} sees no GPU, though the job asked for one")
    if torch.version.cuda is None and not getattr(torch.version, "hip", None):
        log("this PyTorch was built without CUDA: install a build with CUDA on the login node")
    elif not os.environ.get("CUDA_VISIBLE_DEVICES"):
        log("CUDA_VISIBLE_DEVICES is empty: the job has no GPU; ask for one, e.g. --gpus 1")
    else:
        log(f"its CUDA {torch.version.cuda} may be too new for this node's driver")
    return 1
