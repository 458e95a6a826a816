"""The sessions of a cluster as its queue knows them, from whichever computer they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.request import find_profile, is_check, is_successor, session_of
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import Cost, cost_so_far
from jupyter_hpc.slurm.models import Job, Phase
from jupyter_hpc.slurm.reasons import explain_reason


@dataclass(frozen=True)
class ClusterSession:
    """A session whose job waits or runs.

    `named` tells whether commands on this computer reach it by `name`: a job may have been
    made with a profile that only another computer has.
    """

    name: str
    job: Job
    profile: Profile
    named: bool

    @property
    def cost(self) -> Cost | None:
        """What its job has cost until now, where the profile knows the rates."""
        budget = self.profile.budget
        return cost_so_far(self.job, budget.rates, budget.unit)

    @property
    def is_successor(self) -> bool:
        """Whether its job is to take the session over from another one."""
        return is_successor(self.job.name)

    @property
    def is_check(self) -> bool:
        """Whether it is no session, but a small job that looks at a node."""
        return is_check(self.job.name)

    @property
    def waits_because(self) -> str:
        """Why its job waits, in a sentence; "" if it does not wait."""
        waits = self.job.phase is Phase.PENDING
        return explain_reason(self.job.reason).text if waits else ""


async def list_sessions(slurm: SlurmClient, asked: Profile) -> list[ClusterSession]:
    """All sessions of this user on the cluster that `asked` leads to, the oldest first."""
    living = (job for job in await slurm.my_jobs() if not is_over(job))
    named = [(session_of(job.name), job) for job in living]
    found = [_session(name, job, asked) for name, job in named if name]
    return sorted(found, key=lambda session: int(session.job.job_id or 0))


async def jobs_of(slurm: SlurmClient, name: str, asked: Profile) -> list[ClusterSession]:
    """The living jobs of one session: one, unless two computers asked at the same moment."""
    return [session for session in await list_sessions(slurm, asked) if session.name == name]


def is_over(job: Job) -> bool:
    """Whether nothing of the job is left to come back to, or to end."""
    return job.phase in (Phase.ENDING, Phase.ENDED)


def unique_logins(profiles: Sequence[Profile]) -> list[Profile]:
    """One profile for each cluster: several may lead to the same login host."""
    chosen: list[Profile] = []
    for profile in profiles:
        if all(profile.login != other.login for other in chosen):
            chosen.append(profile)
    return chosen


def _session(name: str, job: Job, asked: Profile) -> ClusterSession:
    try:
        profile, _ = find_profile(name)
    except ProfileError:
        return ClusterSession(name, job, asked, named=False)
    # A profile of the same name may lead to another cluster here.
    if profile.login != asked.login:
        return ClusterSession(name, job, asked, named=False)
    return ClusterSession(name, job, profile, named=True)
