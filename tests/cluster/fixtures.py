"""pytest fixtures for tests on a real cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.packages import obstacle
from tests.cluster.switches import Switches

ClusterFactory = Callable[..., Cluster]


def require(switches: Switches) -> None:
    """Skip the test if this machine cannot run such a cluster; with CI=true, fail it."""
    reason = obstacle(switches)
    if reason is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; with CI=true this is a failure, not a skip", pytrace=False)
    pytest.skip(reason)


_shared = pytest.StashKey[Cluster]()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of this test run: accounting on, every switch at its default."""
    require(Switches())
    with Cluster() as running:
        request.config.stash[_shared] = running
        yield running
        del request.config.stash[_shared]


@pytest.fixture(scope="module", autouse=True)
def _handed_over_clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """No module finds a fault, a job or a process that another one left on the cluster."""
    yield
    shared = request.config.stash.get(_shared, None)
    if shared and any(
        "cluster" in item.fixturenames
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.getparent(pytest.Module) is request.node
    ):
        shared.heal()
        shared.end_processes()


@pytest.fixture
def healed_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """The same cluster; after the test its faults are repaired and all jobs ended."""
    yield cluster
    cluster.heal()


@pytest.fixture(scope="module")
def cluster_with() -> Iterator[ClusterFactory]:
    """`cluster_with(adopt=True, …)`: a cluster with these switches (see Switches).

    The same switches give the same cluster again within a test module; all of
    them are removed at its end.
    """
    running: dict[Switches, Cluster] = {}

    def make(**values: Any) -> Cluster:
        switches = Switches(**values)
        require(switches)
        if switches not in running:
            fresh = Cluster(switches)
            fresh.up()
            running[switches] = fresh
        return running[switches]

    try:
        yield make
    finally:
        for each in running.values():
            each.down()
