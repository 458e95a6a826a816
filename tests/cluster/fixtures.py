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


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster of this test run: accounting on, every switch at its default."""
    require(Switches())
    with Cluster() as running:
        yield running


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
