"""The job that this Jupyter server runs in: what it got, how long it lasts, its memory."""

from __future__ import annotations

import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_hpc.errors import HpcError, SlurmUnavailable
from jupyter_hpc.node.services.cache import WAIT_SECONDS, Cached, Dated
from jupyter_hpc.node.services.memory import Memory, read_memory
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.profile import SiteProfile
from jupyter_hpc.node.values import problem_of
from jupyter_hpc.slurm.job_environment import JobEnvironment, read_job_environment

if TYPE_CHECKING:
    from jupyter_hpc.node.services.memory_kills import MemoryKill
    from jupyter_hpc.slurm.models import Job

#: The end of a job hardly ever changes: asked once, then again after so long.
JOB_LIFETIME_SECONDS = 600.0
MEMORY_LIFETIME_SECONDS = 5.0


@dataclass(frozen=True)
class Cluster:
    """Which cluster this is."""

    name: str | None
    title: str | None
    docs: str | None
    support: str | None = None


@dataclass(frozen=True)
class SessionJob:
    """The job around this server; times are epoch seconds."""

    id: str
    name: str | None
    partition: str | None
    account: str | None
    qos: str | None
    nodes: tuple[str, ...]
    cpus: int | None
    memory_mb: int | None
    gpus: int | None
    gpu_type: str | None
    started: float | None
    ends: float | None
    time_left: float | None
    ends_from: str | None
    taken_at: float
    age: float


@dataclass(frozen=True)
class SessionMemory:
    """Memory of the job with its age."""

    used: int
    limit: int | None
    source: str
    scope: str
    taken_at: float
    age: float


@dataclass(frozen=True)
class Session:
    """Everything the Session section shows."""

    host: str
    user: str
    cluster: Cluster
    job: SessionJob | None
    problem: Mapping[str, str] | None
    memory: SessionMemory | None
    memory_kills: tuple[MemoryKill, ...]
    features: Mapping[str, bool]
    now: float


def outside_of_a_job() -> HpcError:
    """What a server on a laptop or a login host says."""
    return HpcError(
        "This server does not run inside a job of Slurm.",
        "Start it with `jupyter-hpc connect` to see its time and limits here.",
    )


def silent_controller(environment: JobEnvironment) -> HpcError:
    """What is said while the first answer about the session's job is awaited."""
    if environment.ends is None:
        return SlurmUnavailable(
            "Slurm has not yet said when this session ends.", "Everything else is known without it."
        )
    return SlurmUnavailable(
        "Slurm has not yet said under which name and account this session runs.",
        "Its end is known without it.",
    )


class SessionService:
    """Reads the session from the environment, and from Slurm only what is not there."""

    def __init__(
        self,
        environ: Mapping[str, str],
        profile: SiteProfile,
        user: str,
        features: Mapping[str, bool],
        ask_job: Callable[[str], Awaitable[Job | None]],
        offload: Offload,
        known_job: Callable[[str], Dated[Job] | None] = lambda job_id: None,
        memory_kills: Callable[[], tuple[MemoryKill, ...]] = tuple,
    ) -> None:
        self._job_environment = read_job_environment(environ)
        self._profile = profile
        self._user = user
        self._features = features
        self._ask_job = ask_job
        self._offload = offload
        self._known_job = known_job
        self._memory_kills = memory_kills
        self._started_at = time.time()
        #: What the scheduler allows the job on this node, in bytes.
        self._node_limit: int | None = None
        self._job = Cached(self._fetch_job, JOB_LIFETIME_SECONDS, floor=30.0)
        self._memory = Cached(self._fetch_memory, MEMORY_LIFETIME_SECONDS)

    async def read(self) -> Session:
        """The session as of now; a silent Slurm leaves out the end time and says so."""
        environment = self._job_environment
        problem: HpcError | None = None
        job = None
        if environment is None:
            problem = outside_of_a_job()
        else:
            asked, problem = await self._slurm_view(environment)
            job = self._describe(environment, asked)
            if job.memory_mb:
                self._node_limit = job.memory_mb // max(1, len(job.nodes)) * 1024 * 1024
        now = time.time()
        return Session(
            host=platform.node(),
            user=self._user,
            cluster=Cluster(
                self._profile.name or (environment.cluster if environment else None),
                self._profile.title,
                self._profile.docs,
                self._profile.support,
            ),
            job=job,
            problem=problem_of(problem),
            memory=await self._memory_now(),
            memory_kills=self._memory_kills(),
            features=self._features,
            now=now,
        )

    async def _slurm_view(
        self, environment: JobEnvironment
    ) -> tuple[Dated[Job] | None, HpcError | None]:
        """What Slurm's queue says about this job; asked only where the environment is silent.

        The list of jobs is fetched anyway while somebody looks at it; when it knows this
        job it is newer than the environment (an administrator may move the end).
        """
        known = self._known_job(environment.id)
        if known is not None:
            return known, None
        if environment.tells_all:
            return None, None
        try:
            dated = await self._job.get(first_timeout=WAIT_SECONDS)
        except HpcError as error:
            return None, error if self._job.failure else silent_controller(environment)
        if dated.value is None:
            return None, HpcError("Slurm does not list the job of this session any more.", "")
        return Dated(dated.value, dated.taken_at), dated.problem

    async def _fetch_job(self) -> Job | None:
        return await self._ask_job(self._job_environment.id) if self._job_environment else None

    def _describe(self, environment: JobEnvironment, asked: Dated[Job] | None) -> SessionJob:
        now = time.time()
        job = asked.value if asked else None
        ends, source = environment.ends, "environment" if environment.ends else None
        if job is not None and job.ends is not None:
            ends, source = job.ends, "slurm"
        taken_at = asked.taken_at if asked else self._started_at
        return SessionJob(
            id=environment.id,
            name=(job.name if job else None) or environment.name,
            partition=(job.partition if job else None) or environment.partition,
            account=(job.account if job else None) or environment.account,
            qos=(job.qos if job else None) or environment.qos,
            nodes=environment.nodes,
            cpus=(job.cpus if job else None) or environment.cpus,
            memory_mb=(job.memory_mb if job else None) or environment.memory_mb,
            gpus=job.gpus if job else environment.gpus,
            gpu_type=(job.gpu_type if job else None) or environment.gpu_type,
            started=(job.started if job else None) or environment.started,
            ends=ends,
            time_left=None if ends is None else max(0.0, ends - now),
            ends_from=source,
            taken_at=taken_at,
            age=max(0.0, now - taken_at),
        )

    async def _fetch_memory(self) -> Memory | None:
        return await self._offload(
            read_memory, self._node_limit, timeout=5.0, about="The memory of this job"
        )

    async def _memory_now(self) -> SessionMemory | None:
        try:
            memory = (await self._memory.get()).value
        except HpcError:
            return None
        if memory is None:
            return None
        return SessionMemory(
            memory.used,
            memory.limit,
            memory.source,
            memory.scope,
            memory.taken_at,
            max(0.0, time.time() - memory.taken_at),
        )

    async def stop(self) -> None:
        """End what is under way."""
        await self._job.stop()
        await self._memory.stop()
