"""sstat: what the steps of running jobs have used so far."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import Step
from jupyter_hpc.demo.slurm.listing import Field, fields_of, listing
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.units import write_span
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "allsteps": "a",
        "format": "o:",
        "jobs": "j:",
        "noheader": "n",
        "parsable": "p",
        "parsable2": "P",
        "version": "V",
    }
)
DEFAULT = "JobID,NTasks,AveCPU,MaxRSS"


@dataclass(frozen=True)
class Row:
    """One running step, with the CPU seconds and KiB of all its processes."""

    step: Step
    cpu_seconds: float
    memory_kib: int

    def usage(self, share: float) -> str:
        cpu = write_span(int(self.cpu_seconds * share), full=True)
        memory = int(self.memory_kib * share)
        return f"cpu={cpu},energy=0,fs/disk=0,mem={memory}K,pages=0,vmem=0"

    @property
    def tasks(self) -> int:
        return max(1, self.step.tasks)


_FIELDS: tuple[tuple[str, int, Callable[[Row], str]], ...] = (
    ("JobID", -12, lambda r: r.step.full_id),
    ("NTasks", 8, lambda r: str(r.step.tasks)),
    ("AveCPU", 10, lambda r: write_span(int(r.cpu_seconds / r.tasks), full=True)),
    ("MaxRSS", 10, lambda r: f"{r.memory_kib // r.tasks}K"),
    ("TRESUsageInAve", 14, lambda r: r.usage(1 / r.tasks)),
    ("TRESUsageInTot", 14, lambda r: r.usage(1.0)),
)
FIELDS: Mapping[str, Field[Row]] = {
    name.lower(): Field(name, width, read) for name, width, read in _FIELDS
}


async def sstat(call: Call, controller: Controller) -> int:
    """Print the running steps of the jobs that are named."""
    pairs, _ = parse("sstat", call.arguments, OPTIONS)
    options = dict(pairs)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    fields = fields_of("sstat", options, DEFAULT, FIELDS)
    rows: list[Row] = []
    for text in options.get("jobs", "").split(","):
        if not re.match(r"\d", text):
            raise BadCommand("sstat: error: You didn't give me any jobs to stat.")
        steps = [step for job in controller.jobs.find(text) for step in job.steps if not step.end]
        if not steps:
            call.err(f"sstat: error: No steps running for job {text}")
        chosen = steps if "allsteps" in options else steps[-1:]
        rows += [_measured(step) for step in chosen]
    call.out(listing(fields, rows, options))
    return 0


def _measured(step: Step) -> Row:
    seconds, memory = 0.0, 0
    for spawned in step.processes:
        with contextlib.suppress(psutil.Error):
            first = psutil.Process(spawned.pid)
            for process in (first, *first.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    # what ended children used counts for the parent that waited for them
                    seconds += times.user + times.system
                    seconds += times.children_user + times.children_system
                    memory += process.memory_info().rss // 1024
    return Row(step, seconds, memory)
