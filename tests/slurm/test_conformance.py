"""One table over both clusters: real Slurm and the embedded one give the same answers."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.slurm.version import DEFAULT_RELEASE
from jupyter_hpc.runner import Runner
from tests.cluster.roots import default_release
from tests.slurm.bench import Bench
from tests.slurm.checks import CHECKS, Check
from tests.slurm.checks.ending import start_the_late_job
from tests.slurm.commands import listed
from tests.slurm.runners import HostRunner, PlainRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: The late job needs a minute and a half on the real cluster.
TIMEOUT_SECONDS = 240


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["real", "demo"])
async def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bench]:
    """The cluster, as its user on the login host."""
    if request.param == "real":
        runner: Runner = HostRunner(request.getfixturevalue("cluster"))
        made = Bench("real", runner, "alice", "61001", "gpu01", "cpu01", "a100")
        await start_the_late_job(made)
        yield made
        await made.client.cancel([made.late_job])
        return
    release = default_release() or DEFAULT_RELEASE
    async with DemoCluster(tmp_path_factory.mktemp("demo"), slurm=release) as demo:
        environment = demo.host_environment(demo.login)
        user = pwd.getpwuid(os.getuid()).pw_name
        runner = PlainRunner(environment, environment["HOME"])
        made = Bench("demo", runner, user, str(os.getuid()), "demo-gpu1", "demo-cpu1", "a100")
        await start_the_late_job(made)
        yield made


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_conformance(bench: Bench, check: Check) -> None:
    try:
        await check(bench)
    finally:
        await bench.clear()


async def test_the_checks_use_the_whole_table(bench: Bench, request: pytest.FixtureRequest) -> None:
    """Whatever is in the table was run on this cluster by one of the checks above."""
    here = [item for item in request.session.items if item.path == Path(__file__)]
    if len(here) < 2 * (len(CHECKS) + 1):
        pytest.skip("only a part of the checks was asked for")
    used = listed(bench.seen)
    missing = {
        command: sorted(options - used.get(command, frozenset()))
        for command, options in listed().items()
        if options - used.get(command, frozenset()) or command not in used
    }
    assert missing == {}
