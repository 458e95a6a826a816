"""The newest release in short: a part of the conformance table, one session, one job.

`make test` runs this where `make matrix` has made the release's root; elsewhere it is skipped,
which the last lines of the run say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.packages import obstacle
from tests.cluster.roots import NEWEST
from tests.cluster.switches import Switches
from tests.connect.real.sessions import connected
from tests.matrix.release import SMALL, Desk, texts
from tests.slurm.bench import Bench
from tests.slurm.checks import Check, allocating, asking, submitting
from tests.slurm.runners import HostRunner

#: The checks of what has changed between releases, each of a second or two.
SHORT: tuple[Check, ...] = (
    asking.detail_of_a_job, asking.partitions, allocating.granted_at_once,
    allocating.a_step_has_what_the_job_has, submitting.header_lines_mean_the_same,
)  # fmt: skip


@pytest.fixture(scope="module")
def newest() -> Iterator[Cluster]:
    """A cluster of the newest release."""
    switches = Switches(slurm=NEWEST)
    reason = obstacle(switches)
    if reason:
        pytest.skip(reason)
    with Cluster(switches) as running:
        yield running


@pytest.mark.timeout(600)  # the first cluster of a release builds its users' Python
@pytest.mark.parametrize("check", SHORT, ids=lambda check: check.__name__)
async def test_conformance(newest: Cluster, check: Check) -> None:
    bench = Bench("real", HostRunner(newest), "alice", "61001", "gpu01", "cpu01", "a100")
    try:
        await check(bench)
    finally:
        await bench.clear()


@pytest.mark.timeout(600)
def test_one_session_and_one_job(newest: Cluster, tmp_path: Path) -> None:
    desk = Desk(newest, tmp_path, allocation={"partition": "gpu", "gpus": 1, "gpu_type": "a100"})
    with connected(desk.laptop, "mini") as session:
        assert session.wait_for("ready", 90)["node"] == "gpu01"
        assert session.get("/api")[0] == 200
        cells = ["n = 2", "open('out.txt', 'w').write(str(n * 21))\nprint('answer', n * 21)"]
        job = desk.submit("short", cells, *SMALL, "--wait")
        assert "answer 42" in desk.hpc("log", job)
        assert texts(desk.results(job), "out.txt") == ["42"]
    desk.clear()
