"""A fresh embedded cluster for each test (it is up in a fraction of a second)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from tests.demo.hosts import Host, open_login


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: pytest's own are too long for unix sockets, which has a test of its own."""
    path = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def cluster(folder: Path) -> AsyncIterator[DemoCluster]:
    async with DemoCluster(folder, kill_wait=1.0) as running:
        yield running


@pytest.fixture
async def login(cluster: DemoCluster) -> AsyncIterator[Host]:
    """A session on the login host."""
    async with open_login(cluster) as host:
        yield host
