"""What a connect would ask Slurm for, and what would come of it; nothing is queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.rules import site_lines, without_guesses
from jupyter_hpc.connect.job.allocation import find_job
from jupyter_hpc.connect.job.existing import mismatch
from jupyter_hpc.connect.job.request import request_for, session_name, session_of
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import utc
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.advice import partition_limits
from jupyter_hpc.slurm.allocate import keep_alive_script
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import Cost, job_cost
from jupyter_hpc.slurm.models import Estimate, Job, Partition, Request
from jupyter_hpc.slurm.options import request_options
from jupyter_hpc.waiting import together


@dataclass(frozen=True)
class Plan:
    """A session that was not asked for: its request, and what Slurm says to it."""

    request: Request
    limits: tuple[str, ...]  #: of the partitions that it may run in
    estimate: Estimate
    cost: Cost | None
    existing: Job | None  #: the session's job, which would be used instead
    differences: tuple[str, ...]  #: between that job and what is asked for

    @property
    def name(self) -> str:
        return session_of(self.request.name)

    def to_json(self) -> Mapping[str, Any]:
        return {
            "cluster": self.name,
            "options": request_options(self.request),
            "limits": list(self.limits),
            "estimated_start": utc(self.estimate.start) if self.estimate.start else None,
            "estimated_nodes": self.estimate.nodes,
            "cost": str(self.cost) if self.cost else "",
            "existing_job": self.existing.job_id if self.existing else None,
            "differences": list(self.differences),
        }


async def plan(profile: Profile, options: ConnectOptions, runner: Runner) -> Plan:
    """Ask the cluster; SubmitRejected with what is allowed where it would refuse the request."""
    slurm = SlurmClient(runner)
    name = session_name(profile.name, options.number)
    job, partitions = await together(
        _no_job() if options.new else find_job(slurm, name), slurm.partitions()
    )
    profile = without_guesses(profile, partitions)
    allocation = profile.allocation_for(options.preset, options.overrides)
    request = request_for(profile, allocation, name)
    await slurm.check(request, partitions)
    found = mismatch(profile, options, session_of(name), job) if job else None
    return Plan(
        request,
        (*_named_limits(request, partitions), *site_lines(profile, allocation)),
        await slurm.test_only(request, keep_alive_script()),
        job_cost(request, profile.budget.rates, profile.budget.unit, partitions=partitions),
        job,
        found.differences if found else (),
    )


def _named_limits(request: Request, partitions: Sequence[Partition]) -> list[str]:
    """The limits of the partitions; where the site chooses among all, they would say nothing."""
    routed = request.routed and not request.partition
    return [] if routed else partition_limits(request, partitions)


async def _no_job() -> None:
    return None
