"""The sampler of a further node of a job: a line of JSON for each sample, until nobody listens.

It runs in a step on that node, as `python -c PROGRAM INTERVAL` with the interpreter of the
Jupyter server, and ends with its standard input: when the panel is closed, the server ends
or the job does. `read_line` is the other end.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from jupyter_hpc.errors import GpuUnavailable, HpcError
from jupyter_hpc.gpu.choose import open_source
from jupyter_hpc.gpu.sample import GpuProcess, GpuReading, GpuSource, Sample
from jupyter_hpc.gpu.sampler import GpuSampler
from jupyter_hpc.slurm.job_environment import read_job_environment

#: Seconds between two samples; the GPUs of the first node are sampled each second.
INTERVAL_SECONDS = 2.0

#: Not `-m`, which would take modules of the folder that the notebooks are in for ours.
PROGRAM = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "from jupyter_hpc.node.services.node_sampler import main; main(float(sys.argv[1]))"
)


@dataclass(frozen=True)
class NodeSample:
    """What a node has said: a sample with its source, or why there is none."""

    sample: Sample | None = None
    failure: HpcError | None = None
    source: str = "none"
    driver: str | None = None
    #: Since when each GPU has been idle, by its id.
    idle_since: dict[str, float] = field(default_factory=dict)
    #: The names of the processes that hold memory, by their ids.
    names: dict[int, str] = field(default_factory=dict)


def main(interval: float = INTERVAL_SECONDS) -> None:
    """Sample until standard input ends; a driver that hangs does not keep this from ending."""
    sampler = GpuSampler(_open, interval, lambda: _say(sampler))
    sampler.start()
    while os.read(0, 4096):
        pass
    os._exit(0)


def _open() -> GpuSource:
    job = read_job_environment(os.environ)
    allocated = job.gpu_list if job else None
    return open_source(os.environ, allocated=allocated, in_job=job is not None)


def _say(sampler: GpuSampler) -> None:
    """One line; called in the sampler's thread after each attempt."""
    sample, failure, origin = sampler.sample, sampler.failure, sampler.origin
    line: dict[str, Any] = {"problem": None, "sample": None}
    if failure is not None:
        line["problem"] = {"message": failure.message, "hint": failure.hint}
    if sample is not None:
        pids = {process.pid for gpu in sample.gpus for process in gpu.processes}
        line["sample"] = asdict(sample)
        line["idle_since"] = {gpu.id: sampler.history.idle_since(gpu.id) for gpu in sample.gpus}
        line["names"] = {pid: _name_of(pid) for pid in pids}
    if origin is not None:
        line["source"], line["driver"] = origin.label, origin.driver
    try:
        os.write(1, json.dumps(line, separators=(",", ":")).encode() + b"\n")
    except OSError:
        os._exit(0)  # nobody listens any more


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() or "?"
    except OSError:
        return "?"


def read_line(line: bytes) -> NodeSample | None:
    """What one line says; None for a line of something else (a shell's greeting)."""
    try:
        said = json.loads(line)
        problem, sample = said["problem"], said["sample"]
        return NodeSample(
            sample=_sample(sample) if sample else None,
            failure=GpuUnavailable(problem["message"], problem["hint"]) if problem else None,
            source=said.get("source", "none"),
            driver=said.get("driver"),
            idle_since={key: at for key, at in said.get("idle_since", {}).items() if at},
            names={int(pid): str(name) for pid, name in said.get("names", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _sample(value: dict[str, Any]) -> Sample:
    # The clocks of two nodes differ; what counts here is when it came.
    gpus = [
        GpuReading(**{**gpu, "processes": tuple(GpuProcess(**each) for each in gpu["processes"])})
        for gpu in value["gpus"]
    ]
    return Sample(time.time(), tuple(gpus))
