"""What a session asks Slurm for, and the name by which its job is found again."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from jupyter_hpc.clusters import Allocation, Profile, load
from jupyter_hpc.clusters.schema import check_options
from jupyter_hpc.clusters.sections import decided
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.errors import ProfileError

if TYPE_CHECKING:  # its many classes take as long as all of a profile, which is all that push needs
    from jupyter_hpc.slurm.models import Job, Request

#: What the names of all our sessions' jobs begin with; the session's own name follows.
_PREFIX = "jupyter-hpc-"

#: What follows in the name of a session's successor; no profile's name has such a sign.
_SUCCESSOR = "+next"

#: What follows in the name of a small job that looks at a node.
_CHECK = "+check"

_NUMBERED = re.compile(r"(?P<profile>.+)-(?P<number>[2-9]|[1-9][0-9])")


@dataclass
class OwnJobs:
    """The jobs that one connect has asked for, as opposed to those that it found.

    Each carries the connect's mark as its comment, or behind that of the profile: one that was
    asked for just before a cut is known by it, although its number never came.
    """

    mark: str = field(default_factory=lambda: f"jupyter-hpc {secrets.token_hex(8)}")
    _numbers: set[str] = field(default_factory=set)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._numbers

    def add(self, job_id: str) -> None:
        self._numbers.add(job_id)

    def has_mark(self, job: Job) -> bool:
        """Whether this connect has asked for the job, whatever of its number came."""
        return job.comment.endswith(self.mark)

    def recognise(self, job: Job) -> bool:
        """Whether a job that was found is one of these."""
        if self.has_mark(job):
            self.add(job.job_id)
        return job.job_id in self


def session_name(profile_name: str, number: int = 1) -> str:
    """The job name of a session; `--new` counts on from 2."""
    return _PREFIX + profile_name + (f"-{number}" if number > 1 else "")


def session_of(job_name: str) -> str:
    """The session whose job, successor or check has that name; "" for any other job."""
    if not job_name.startswith(_PREFIX):
        return ""
    return job_name[len(_PREFIX) :].removesuffix(_SUCCESSOR).removesuffix(_CHECK)


def find_profile(name: str) -> tuple[Profile, int]:
    """The profile of a session's name: "ulysses", or "ulysses-2" for a further session."""
    try:
        return load(name), 1
    except ProfileError:
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None:
            raise
        try:
            return load(numbered["profile"]), int(numbered["number"])
        except ProfileError:
            pass
        raise


def wanted_profile(options: ConnectOptions) -> tuple[Profile, int]:
    """The profile and number of the session that is wanted.

    Raises for everything that can be found wrong before anything is changed.
    """
    profile, number = find_profile(options.name)
    profile.check_usable()
    profile.allocation_for(options.preset, options.overrides)
    if options.idle_release is not None:
        check_options("jupyter", {"idle_release": options.idle_release})
    return profile, max(number, options.number)


def given_members(
    profile: Profile, preset: str | None, overrides: Mapping[str, Any]
) -> frozenset[str]:
    """What was asked for on the command line, by a preset or by an option of its own."""
    chosen = profile.presets.get(preset or "", Allocation())
    members = fields(Allocation)
    named = {each.name for each in members if getattr(chosen, each.name) not in (None, ())}
    return frozenset(named | {key for key, value in overrides.items() if value is not None})


def successor_name(name: str) -> str:
    """The job name of a session's successor, until it takes the session over.

    Another one than the session's, so that a connect from elsewhere finds the job that serves.
    """
    return name + _SUCCESSOR


def is_successor(job_name: str) -> bool:
    """Whether a session's job is one that is to take the session over."""
    return job_name.endswith(_SUCCESSOR)


def check_name(profile_name: str) -> str:
    """The name of a small job that looks at a node there; no connect takes it for its own."""
    return session_name(profile_name) + _CHECK


def is_check(job_name: str) -> bool:
    """Whether a job was only asked for to look whether a session could be had."""
    return job_name.endswith(_CHECK)


def request_for(profile: Profile, allocation: Allocation, name: str) -> Request:
    """The allocation of a profile as a request to Slurm."""
    from jupyter_hpc.slurm.models import Request

    return Request(
        name=name,
        partition=allocation.partition,
        account=allocation.account,
        qos=allocation.qos,
        constraint=allocation.constraint,
        time=allocation.time,
        nodes=allocation.nodes,
        cpus=decided(allocation.cpus),
        memory=decided(allocation.memory),
        gpus=allocation.gpus,
        gpu_type=allocation.gpu_type,
        gpu_flag=profile.request_gpu_flag,
        routed=profile.routed,
        extra=allocation.extra,
    )
