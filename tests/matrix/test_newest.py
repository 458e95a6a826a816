"""The newest release in short: a part of the conformance table, one session, one job.

`make test` runs this where `make matrix` has made the release's root; elsewhere it is skipped,
which the last lines of the run say. `make matrix` runs the reconnects on each release.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.packages import obstacle
from tests.cluster.roots import NEWEST, default_release
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

#: Three seconds each.
_CUTS = 8 if default_release() else 4


@pytest.fixture(scope="module")
def newest() -> Iterator[Cluster]:
    """A cluster of the newest release, or of the one that the matrix is at."""
    switches = Switches(slurm=default_release() or NEWEST)
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


@pytest.mark.timeout(600)
def test_reconnects_are_never_shut_out(newest: Cluster, tmp_path: Path) -> None:
    """OpenSSH 9.8 and later shuts out who leaves connections without a login."""
    desk = Desk(newest, tmp_path)
    with connected(desk.laptop, "mini") as session:
        session.wait_for("ready", 90)
        left = _left_unauthenticated(newest)
        for cut in range(_CUTS):
            before = len(session.events)
            if cut % 2:
                newest.kill_sessions("login1", "alice")
            else:
                newest.black_hole()
                session.wait_for("reconnecting", 30, before)
                newest.fill_hole()
            session.wait_for("reconnected", 60, before)
        assert _left_unauthenticated(newest) - left <= _CUTS
        # A second for each is only counted ("deferred"); from 15 on the address is shut out.
        assert "active penalty" not in newest.log("login1", "sshd").lower()
    desk.clear()


def _left_unauthenticated(cluster: Cluster) -> int:
    lines = cluster.log("login1", "sshd").splitlines()
    return sum(line.startswith("Connection ") and "[preauth]" in line for line in lines)
