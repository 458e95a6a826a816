"""File name patterns of --output and --error: %j %A %a %x %N %n %t %s %u %%."""

from __future__ import annotations

import re

from jupyter_hpc.demo.layout import user_name
from jupyter_hpc.demo.slurm.jobs import Job, Step

#: %a of a job that is no array task.
NO_TASK = 4294967294


def expand(pattern: str, job: Job, step: Step | None = None, task: int = 0) -> str:
    """The file name that `pattern` stands for; unknown letters stay as they are."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    nodes = step.nodes if step else job.node_names
    step_id = step.id if step else "batch"
    node = nodes[0] if nodes else ""
    values = {
        "A": str(job.array.job_id if job.array else job.id),
        "a": str(job.array.task if job.array else NO_TASK),
        "j": str(job.id),
        "J": f"{job.id}.{step_id}" if step else str(job.id),
        "N": node,
        "n": "0",
        "s": step_id,
        "t": str(task),
        "u": user_name(),
        "x": job.request.name,
        "%": "%",
    }

    def replace(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        value = values.get(letter)
        if value is None:
            return match[0]
        return value.zfill(int(width)) if width and value.isdigit() else value

    return re.sub(r"%(\d*)([A-Za-z%])", replace, pattern)
