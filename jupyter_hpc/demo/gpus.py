"""The simulated GPUs: numbers that follow the processes of the jobs which hold them.

Once a second each node with GPUs gets a new file, whole at every moment, which the
variable JUPYTER_HPC_SIMULATED_GPUS names to everything that runs on that node:

    {"simulated": true, "host": "demo-gpu1", "time": EPOCH, "gpus": [
      {"index": 0, "uuid": "GPU-…", "name": "Simulated A100 40GB", "job": 7 | null,
       "load": PERCENT, "memory_used": BYTES, "memory_total": BYTES,
       "power": WATTS, "power_limit": WATTS, "temperature": CELSIUS,
       "clock": MHZ, "clock_max": MHZ, "memory_clock": MHZ,
       "processes": [{"pid": …, "name": …, "memory": BYTES}]}]}

`index` is the number that CUDA_VISIBLE_DEVICES holds. Load follows the CPU time of
the job's computing processes (kernels and programs, not the Jupyter server itself);
one that has worked for a while holds memory, as much as its own size and a context,
until it ends; power, clock and temperature follow the load. Nobody can take them for
real: every name begins with "Simulated".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from jupyter_hpc.demo.layout import write_private
from jupyter_hpc.demo.processes import STEP_VARIABLE, environment_of
from jupyter_hpc.demo.slurm.inventory import Node
from jupyter_hpc.demo.slurm.jobs import Job
from jupyter_hpc.waiting import finish

log = logging.getLogger(__name__)

VARIABLE = "JUPYTER_HPC_SIMULATED_GPUS"
INTERVAL_SECONDS = 1.0
GIB = 1 << 30
#: What programs that could use a GPU are called; shells, copies and compilers are not.
COMPUTES = ("python", "julia", "R", "ollama")
#: How the programs are called that serve JupyterLab and never compute on a GPU.
SERVES = ("jupyter", "relay", "start.py")
#: CPU seconds after which a process counts as one that uses the GPU.
USES_AFTER_SECONDS = 4.0
#: Seconds in which a new process may still become another program.
SETTLES_AFTER_SECONDS = 30.0
#: What each of those holds besides its own size, like a CUDA context.
CONTEXT_BYTES = 400 << 20


@dataclass(frozen=True)
class Model:
    """One kind of GPU."""

    name: str
    memory: int
    idle_watts: float
    full_watts: float
    idle_clock: float
    full_clock: float
    memory_clock: float


MODELS: Mapping[str, Model] = {
    "a100": Model("Simulated A100 40GB", 40 * GIB, 52.0, 400.0, 210.0, 1410.0, 1215.0),
}


@dataclass
class Worker:
    """One process of a job, as far as its load is concerned."""

    process: psutil.Process
    step: str
    name: str
    cpu_seconds: float = -1.0
    load: float = 0.0
    memory: int = 0


@dataclass
class SimulatedGpu:
    """One simulated GPU; its values lag behind its load, as real ones do."""

    node: Node
    index: int
    uuid: str
    load: float = 0.0
    temperature: float = 31.0

    @property
    def model(self) -> Model:
        return MODELS[self.node.gpu_type]

    def follow(self, load: float, seconds: float) -> None:
        """Move towards `load` (0 to 1) as far as `seconds` allow."""
        self.load += (load - self.load) * min(1.0, seconds / 1.5)
        target = 31.0 + 46.0 * self.load
        self.temperature += (target - self.temperature) * min(1.0, seconds / 12.0)

    def describe(self, job: Job | None, workers: list[Worker]) -> dict[str, Any]:
        model = self.model
        holders = [worker for worker in workers if worker.cpu_seconds >= USES_AFTER_SECONDS]
        memory = [
            {
                "pid": w.process.pid,
                "name": w.name,
                "memory": min(CONTEXT_BYTES + w.memory, model.memory),
            }
            for w in holders
        ]
        used = min(sum(int(str(entry["memory"])) for entry in memory), model.memory)
        busy = self.load > 0.01
        noise = random.uniform(-1.0, 1.0)  # noqa: S311 - for the eye only
        watts = model.idle_watts + (model.full_watts - model.idle_watts) * self.load
        return {
            "index": self.index,
            "uuid": self.uuid,
            "name": model.name,
            "job": job.id if job else None,
            "load": round(min(100.0, max(0.0, self.load * 100 + (noise if busy else 0.0))), 1),
            "memory_used": used,
            "memory_total": model.memory,
            "power": round(watts + noise, 1),
            "power_limit": model.full_watts,
            "temperature": round(self.temperature),
            "clock": model.full_clock if busy else model.idle_clock,
            "clock_max": model.full_clock,
            "memory_clock": model.memory_clock,
            "processes": memory,
        }


def _computes(process: psutil.Process) -> bool:
    """Whether the process could be one that uses a GPU."""
    arguments = process.cmdline()
    kernel = any("ipykernel" in word for word in arguments)
    serves = any(os.path.basename(word).startswith(SERVES) for word in arguments[1:])
    return process.name().startswith(COMPUTES) and (kernel or not serves)


@dataclass
class SimulatedGpus:
    """All GPUs of the cluster, and the work of keeping their files up to date."""

    folder: Path
    marker: str
    nodes: Iterable[Node]
    jobs: Callable[[], Iterable[Job]]
    _gpus: list[SimulatedGpu] = field(default_factory=list)
    _workers: dict[int, Worker] = field(default_factory=dict)
    _others: set[int] = field(default_factory=set)
    _looked: float = 0.0
    _task: asyncio.Task[None] | None = None

    def path(self, host: str) -> Path | None:
        """The file of a host's GPUs; None if it has none."""
        if any(node.name == host and node.gpus for node in self.nodes):
            return self.folder / f"gpus-{host}.json"
        return None

    async def start(self) -> None:
        for node in self.nodes:
            for index in range(node.gpus):
                uuid = f"GPU-51{node.name.encode().hex()[-6:]:0>6}-0000-4000-8000-{index:012}"
                self._gpus.append(SimulatedGpu(node, index, uuid))
        self._looked = time.monotonic()
        self._write({})
        self._task = asyncio.create_task(self._keep_up())

    async def stop(self) -> None:
        if self._task is not None:
            await finish(self._task)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            held = {
                (share.node, gpu): job
                for job in self.jobs()
                if job.active
                for share in job.shares
                for gpu in share.gpus
            }
            try:
                await asyncio.to_thread(self._step, held)
            except (OSError, psutil.Error):
                log.exception("The simulated GPUs could not be brought up to date")

    def _step(self, held: Mapping[tuple[str, int], Job]) -> None:
        now = time.monotonic()
        seconds, self._looked = max(0.05, now - self._looked), now
        if held:
            self._look_for_workers()
            self._measure(seconds)
        else:
            self._workers.clear()
        for gpu in self._gpus:
            job = held.get((gpu.node.name, gpu.index))
            gpu.follow(self._load(job) if job else 0.0, seconds)
        self._write(held)

    def _of(self, job: Job) -> list[Worker]:
        prefix = f"{self.marker}:{job.id}."
        return [worker for worker in self._workers.values() if worker.step.startswith(prefix)]

    def _load(self, job: Job) -> float:
        """Shared by the job's GPUs: one busy core keeps one GPU busy."""
        gpus = sum(len(share.gpus) for share in job.shares) or 1
        return min(1.0, sum(worker.load for worker in self._of(job)) / gpus)

    def _look_for_workers(self) -> None:
        """Find new processes of jobs; the environment of older ones is not read again."""
        pids = set(psutil.pids())
        self._others &= pids
        for pid in list(self._workers):
            if pid not in pids:
                del self._workers[pid]
        for pid in pids - self._others - self._workers.keys():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                step = environment_of(process).get(STEP_VARIABLE, "")
                if step.startswith(f"{self.marker}:") and _computes(process):
                    self._workers[pid] = Worker(process, step, process.name())
                elif time.time() - process.create_time() > SETTLES_AFTER_SECONDS:
                    self._others.add(pid)

    def _measure(self, seconds: float) -> None:
        for pid, worker in list(self._workers.items()):
            try:
                times = worker.process.cpu_times()
                memory = worker.process.memory_info().rss
            except psutil.Error:
                del self._workers[pid]
                continue
            total = times.user + times.system
            if worker.cpu_seconds >= 0:
                worker.load = max(0.0, total - worker.cpu_seconds) / seconds
            worker.cpu_seconds, worker.memory = total, memory

    def _write(self, held: Mapping[tuple[str, int], Job]) -> None:
        for node in self.nodes:
            path = self.path(node.name)
            if path is None:
                continue
            gpus = []
            for gpu in self._gpus:
                if gpu.node is node:
                    job = held.get((node.name, gpu.index))
                    gpus.append(gpu.describe(job, self._of(job) if job else []))
            content = {"simulated": True, "host": node.name, "time": time.time(), "gpus": gpus}
            write_private(path, json.dumps(content) + "\n")
