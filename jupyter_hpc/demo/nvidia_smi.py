"""nvidia-smi for the simulated GPUs: the csv queries, the list, and a plain table."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_hpc.demo.gpus import VARIABLE
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.options import BadCommand
from jupyter_hpc.waiting import within

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
    "that the latest NVIDIA driver is installed and running."
)
MIB = 1 << 20
Gpu = Mapping[str, Any]

#: field -> (unit, value)
FIELDS: Mapping[str, tuple[str, Callable[[Gpu], str]]] = {
    "clocks.max.sm": ("MHz", lambda g: f"{g['clock_max']:.0f}"),
    "clocks.mem": ("MHz", lambda g: f"{g['memory_clock']:.0f}"),
    "clocks.sm": ("MHz", lambda g: f"{g['clock']:.0f}"),
    "driver_version": ("", lambda _: "simulated"),
    "gpu_name": ("", lambda g: str(g["name"])),
    "gpu_uuid": ("", lambda g: str(g["uuid"])),
    "index": ("", lambda g: str(g["index"])),
    "memory.free": ("MiB", lambda g: str((g["memory_total"] - g["memory_used"]) // MIB)),
    "memory.total": ("MiB", lambda g: str(g["memory_total"] // MIB)),
    "memory.used": ("MiB", lambda g: str(g["memory_used"] // MIB)),
    "name": ("", lambda g: str(g["name"])),
    "power.draw": ("W", lambda g: f"{g['power']:.2f}"),
    "power.limit": ("W", lambda g: f"{g['power_limit']:.2f}"),
    "temperature.gpu": ("", lambda g: str(g["temperature"])),
    "timestamp": ("", lambda _: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "utilization.gpu": ("%", lambda g: f"{g['load']:.0f}"),
    "utilization.memory": ("%", lambda g: f"{100 * g['memory_used'] // g['memory_total']}"),
    "uuid": ("", lambda g: str(g["uuid"])),
}
#: Options with a value, and the name under which it is kept.
_VALUES = {
    "--query-gpu": "query",
    "--format": "format",
    "-i": "id",
    "--id": "id",
    "-l": "loop",
    "--loop": "loop",
    "-lms": "loop-ms",
    "--loop-ms": "loop-ms",
}


async def nvidia_smi(call: Call, controller: Controller) -> int:
    """Answer one nvidia-smi on the host that it runs on."""
    options = _options(call.arguments)
    path = call.environment.get(VARIABLE)
    if not path:
        call.out(f"{NO_DRIVER}\n\n")
        return 9
    pause = float(options.get("loop-ms", 0)) / 1000 or float(options.get("loop", 0) or 0)
    text = _answer(_read(path, options), options, heading=True)
    while True:
        call.out(text)
        await call.flush()
        if not pause:
            return 0
        with contextlib.suppress(asyncio.TimeoutError):
            await within(call.gone.wait(), pause)
        if call.gone.is_set():
            return 0
        text = _answer(_read(path, options), options, heading=False)


def _options(arguments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in _VALUES and (equals or words):
            found[_VALUES[name]] = value if equals else words.pop(0)
        elif word in ("-L", "--list-gpus"):
            found["list"] = ""
        else:
            text = f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'."
            raise BadCommand(text, code=6)
    return found


def _read(path: str, options: Mapping[str, str]) -> list[Gpu]:
    gpus: list[Gpu] = json.loads(Path(path).read_text(encoding="utf-8"))["gpus"]
    if "id" not in options:
        return gpus
    wanted = options["id"].split(",")
    chosen = [gpu for gpu in gpus if str(gpu["index"]) in wanted or gpu["uuid"] in wanted]
    if not chosen:
        raise BadCommand("No devices were found", code=6)
    return chosen


def _answer(gpus: list[Gpu], options: Mapping[str, str], *, heading: bool) -> str:
    if "list" in options:
        return "".join(f"GPU {g['index']}: {g['name']} (UUID: {g['uuid']})\n" for g in gpus)
    if "query" in options:
        return _csv(gpus, options, heading=heading)
    lines = [f"{time.ctime()}   simulated GPUs of the jupyter-hpc demo cluster"]
    for gpu in gpus:
        lines.append(
            f"| {gpu['index']}  {gpu['name']:<24} | {gpu['temperature']:>3}C  "
            f"{gpu['power']:>6.1f}W / {gpu['power_limit']:.0f}W | "
            f"{gpu['memory_used'] // MIB:>6}MiB / {gpu['memory_total'] // MIB}MiB | "
            f"{gpu['load']:>5.1f}% |"
        )
    return "\n".join(lines) + "\n"


def _csv(gpus: list[Gpu], options: Mapping[str, str], *, heading: bool) -> str:
    form = options.get("format", "").split(",")
    if "csv" not in form:
        raise BadCommand("\"--format=\" switch is missing. Please run 'nvidia-smi -h'.", code=6)
    names = [name.strip() for name in options["query"].split(",")]
    for name in names:
        if name not in FIELDS:
            raise BadCommand(f'Field "{name}" is not a valid field to query.', "", code=2)
    bare = "nounits" in form
    lines = []
    if heading and "noheader" not in form:
        units = [FIELDS[name][0] for name in names]
        lines.append(", ".join(f"{n} [{u}]" if u else n for n, u in zip(names, units, strict=True)))
    for gpu in gpus:
        values = []
        for name in names:
            unit, read = FIELDS[name]
            values.append(read(gpu) if bare or not unit else f"{read(gpu)} {unit}")
        lines.append(", ".join(values))
    return "".join(f"{line}\n" for line in lines)
