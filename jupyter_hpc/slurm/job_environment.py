"""What Slurm tells a process about its own job, in environment variables; no command is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.errors import HpcError
from jupyter_hpc.slurm import hostlist


@dataclass(frozen=True)
class JobEnvironment:
    """The job that this process runs in, from its SLURM_* variables.

    None and () mean that they do not say.
    """

    id: str
    name: str | None
    cluster: str | None
    partition: str | None
    account: str | None
    qos: str | None
    nodes: tuple[str, ...]
    cpus: int | None  #: on all nodes together
    memory_mb: int | None  #: on all nodes together
    gpus: int | None  #: on all nodes together
    gpu_type: str | None
    #: The GPUs of this node as Slurm counts them: "0,1".
    gpu_list: str | None
    started: int | None
    ends: int | None

    @property
    def tells_all(self) -> bool:
        """Whether there is nothing that only the queue could tell.

        The end is in the environment since 23.02; a step never has the job's name, hardly ever
        its QOS, and the type of the GPUs only where it was asked for by type.
        """
        words = (self.name, self.account, self.qos, self.partition)
        typed = self.gpu_type is not None or self.gpus == 0
        return self.ends is not None and typed and all(word is not None for word in words)


def read_job_environment(environ: Mapping[str, str]) -> JobEnvironment | None:
    """The job that this process runs in, or None outside of any job.

    SLURM_JOB_START_TIME and SLURM_JOB_END_TIME are there since Slurm 23.02.
    """
    job_id = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID")
    if not job_id or not job_id.isdigit():
        return None
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    nodes = _nodes(environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST") or "")
    cpus = _cpus(environ.get("SLURM_JOB_CPUS_PER_NODE") or "")
    gpus, gpu_type = _gpus(environ, len(nodes))
    return JobEnvironment(
        id=f"{array}_{task}" if array and task else job_id,
        # In a step the variable holds the step's name.
        name=None if "SLURM_STEP_ID" in environ else environ.get("SLURM_JOB_NAME") or None,
        cluster=environ.get("SLURM_CLUSTER_NAME") or None,
        partition=environ.get("SLURM_JOB_PARTITION") or None,
        account=environ.get("SLURM_JOB_ACCOUNT") or None,
        qos=environ.get("SLURM_JOB_QOS") or None,
        nodes=nodes,
        cpus=cpus,
        memory_mb=_memory(environ, len(nodes), cpus, gpus),
        gpus=gpus,
        gpu_type=gpu_type,
        gpu_list=environ.get("SLURM_STEP_GPUS") or environ.get("SLURM_JOB_GPUS") or None,
        started=_number(environ.get("SLURM_JOB_START_TIME")),
        ends=_number(environ.get("SLURM_JOB_END_TIME")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and int(text) > 0 else None


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return tuple(hostlist.expand(text)) if text else ()
    except HpcError:
        return (text,)


def _cpus(text: str) -> int | None:
    """ "4(x2),8" is 4 CPUs on two nodes and 8 on a third."""
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return sum(int(cpus) * int(times or 1) for cpus, times in found) or None


def _memory(
    environ: Mapping[str, str], nodes: int, cpus: int | None, gpus: int | None
) -> int | None:
    for variable, times in (
        ("SLURM_MEM_PER_NODE", nodes or 1),
        ("SLURM_MEM_PER_CPU", cpus),
        ("SLURM_MEM_PER_GPU", gpus),
    ):
        each = _number(environ.get(variable))
        if each and times:
            return each * times
    return None


def _gpus(environ: Mapping[str, str], nodes: int) -> tuple[int | None, str | None]:
    """(how many, of which type) from the request; "a100:2" and "2" both occur.

    What this node has says nothing about the others: job-wide GPUs may be 3 here, 1 there.
    """
    for variable, times in (
        ("SLURM_GPUS", 1),
        ("SLURM_GPUS_PER_NODE", nodes or 1),
        ("SLURM_GPUS_ON_NODE", 1 if nodes < 2 else 0),
    ):
        text = environ.get(variable)
        if not text or not times:
            continue
        counts, types = 0, []
        for part in text.split(","):
            kind, _, count = part.rpartition(":")
            counts += int(count) if count.isdigit() else 0
            if kind:
                types.append(kind)
        if counts:
            return counts * times, ",".join(types) or None
    listed = environ.get("SLURM_STEP_GPUS") or environ.get("SLURM_JOB_GPUS")
    return (len(listed.split(",")), None) if listed and nodes < 2 else (None, None)
