"""The session: what the environment says, and what Slurm is asked only then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest

from jupyter_hpc.errors import HpcError, SlurmUnavailable
from jupyter_hpc.node.services import session as session_module
from jupyter_hpc.node.services.cache import Dated
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.profile import SiteProfile
from jupyter_hpc.node.services.session import SessionService
from jupyter_hpc.node.values import to_json
from jupyter_hpc.slurm.models import Job
from tests.node.schema import check
from tests.node.worlds import job
from tests.waiting import until

OLDER = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "gpu[01-02]",
    "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
    "SLURM_MEM_PER_NODE": "1024",
    "SLURM_GPUS": "a100:4",
    "SLURM_CLUSTER_NAME": "mini",
}
FEATURES = dict.fromkeys(("gpus", "jobs", "job_actions", "logs", "storage", "batch"), True)


class World:
    """One job that Slurm may or may not tell about."""

    def __init__(self) -> None:
        self.asked = 0
        self.job: Job | None = job("7", ends=int(time.time()) + 500, gpus=4, name="mine")
        self.error: HpcError | None = None
        self.known: Dated[Job] | None = None
        self.released: asyncio.Event | None = None

    async def ask(self, job_id: str) -> Job | None:
        self.asked += 1
        if self.released is not None:
            await self.released.wait()
        if self.error is not None:
            raise self.error
        return self.job

    def service(
        self, environ: Mapping[str, str], profile: SiteProfile | None = None
    ) -> SessionService:
        return SessionService(
            environ,
            profile or SiteProfile(),
            "alice",
            FEATURES,
            self.ask,
            Offload(),
            lambda job_id: self.known,
        )


#: A step of 23.02 or newer, of a job that asked for everything.
NEWER = OLDER | {
    "SLURM_JOB_END_TIME": "5",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_NAME": "mine",
    "SLURM_JOB_ACCOUNT": "research",
    "SLURM_JOB_QOS": "normal",
}


@pytest.fixture
def world() -> World:
    return World()


async def test_where_the_environment_says_everything_nothing_is_asked(world: World) -> None:
    ends = int(time.time()) + 3600
    session = await world.service(NEWER | {"SLURM_JOB_END_TIME": str(ends)}).read()
    check(to_json(session), "Session")
    assert session.job is not None
    assert (session.job.ends, session.job.ends_from) == (ends, "environment")
    assert session.job.time_left is not None and 3540 < session.job.time_left <= 3600
    assert world.asked == 0


async def test_everything_else_the_environment_says(world: World) -> None:
    session = await world.service(NEWER).read()
    assert session.job is not None
    assert session.job.nodes == ("gpu01", "gpu02")
    assert (session.job.cpus, session.job.memory_mb) == (16, 2048)
    assert (session.job.gpus, session.job.gpu_type) == (4, "a100")
    assert session.job.time_left == 0.0, "never negative"


@pytest.mark.parametrize("silent", ["NAME", "ACCOUNT", "QOS"])
async def test_what_a_newer_slurm_leaves_out_is_asked(world: World, silent: str) -> None:
    """23.02 and later tell the end; name, account and QOS would be missing all the same."""
    environ = dict(NEWER)
    del environ[f"SLURM_JOB_{silent}"]
    session = await world.service(environ).read()
    assert session.job is not None and session.job.name == "mine"
    assert world.asked == 1


async def test_how_many_gpus_several_nodes_have_is_asked(world: World) -> None:
    environ = {**OLDER, "SLURM_JOB_END_TIME": "5", "SLURM_GPUS_ON_NODE": "3"}
    del environ["SLURM_GPUS"]
    session = await world.service(environ).read()
    assert session.job is not None and (session.job.gpus, world.asked) == (4, 1)


async def test_an_older_slurm_is_asked_once(world: World) -> None:
    service = world.service(OLDER)
    for _ in range(5):
        session = await service.read()
    assert world.asked == 1
    assert session.job is not None
    assert (session.job.ends_from, session.job.name) == ("slurm", "mine")
    assert session.job.time_left is not None and 440 < session.job.time_left <= 500


async def test_a_newer_end_from_the_job_list_wins(world: World) -> None:
    later = int(time.time()) + 9000
    world.known = Dated(job("7", ends=later), time.time() - 20)
    session = await world.service(OLDER | {"SLURM_JOB_END_TIME": "5"}).read()
    assert session.job is not None
    assert (session.job.ends, session.job.ends_from) == (later, "slurm")
    assert 20 <= session.job.age < 80
    assert world.asked == 0


async def test_a_silent_slurm_leaves_out_the_end_and_says_so(world: World) -> None:
    world.error = SlurmUnavailable("The controller does not answer.", "Wait.")
    session = await world.service(OLDER).read()
    check(to_json(session), "Session")
    assert session.job is not None and session.job.time_left is None
    assert session.job.nodes == ("gpu01", "gpu02")
    assert session.problem == {"message": "The controller does not answer.", "hint": "Wait."}


async def test_a_slurm_that_hangs_does_not_keep_the_rest_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "WAIT_SECONDS", 0.05)
    world.released = asyncio.Event()
    service = world.service(OLDER)
    session = await asyncio.wait_for(service.read(), 30)
    assert session.job is not None and session.job.nodes == ("gpu01", "gpu02")
    assert session.problem is not None and "not yet said" in session.problem["message"]
    world.released.set()
    await until(lambda: service._job.newest is not None)
    session = await service.read()
    assert session.problem is None
    assert session.job is not None and session.job.ends_from == "slurm"


async def test_a_job_that_slurm_no_longer_lists(world: World) -> None:
    world.job = None
    session = await world.service(OLDER).read()
    assert session.problem is not None and "any more" in session.problem["message"]


async def test_the_profile_names_the_cluster(world: World) -> None:
    profile = SiteProfile({"name": "ulysses", "title": "Ulysses", "docs": "https://x.org"})
    cluster = (await world.service(OLDER, profile).read()).cluster
    assert (cluster.name, cluster.title, cluster.docs) == ("ulysses", "Ulysses", "https://x.org")
    assert (await world.service(OLDER).read()).cluster.name == "mini"


async def test_a_link_to_the_documentation_is_an_address_of_the_web(world: World) -> None:
    profile = SiteProfile({"name": "x", "docs": "javascript:alert(1)"})
    assert (await world.service(OLDER, profile).read()).cluster.docs is None
