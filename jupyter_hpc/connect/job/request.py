"""What a session asks Slurm for, and the name by which its job is found again."""

from __future__ import annotations

from jupyter_hpc.clusters import Allocation, Profile
from jupyter_hpc.slurm.models import Request


def session_name(profile_name: str, number: int = 1) -> str:
    """The job name of a session; `--new` counts on from 2."""
    return f"jupyter-hpc-{profile_name}" + (f"-{number}" if number > 1 else "")


def request_for(profile: Profile, allocation: Allocation, name: str) -> Request:
    """The allocation of a profile as a request to Slurm."""
    return Request(
        name=name,
        partition=allocation.partition,
        account=allocation.account,
        qos=allocation.qos,
        constraint=allocation.constraint,
        time=allocation.time,
        nodes=allocation.nodes,
        cpus=allocation.cpus,
        memory=allocation.memory,
        gpus=allocation.gpus,
        gpu_type=allocation.gpu_type,
        gpu_flag=profile.slurm.gpu_flag,
        extra=allocation.extra,
    )
