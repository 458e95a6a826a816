"""Every address answers as openapi.yaml says, on a real Slurm and on the embedded cluster."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.layout import user_name
from tests.cluster.cluster import Cluster
from tests.gpu.library import NAME, library_folder
from tests.node.answers import CASES, NO_JOB, Case, DemoHosts, World, prepared
from tests.node.boards import write_standin
from tests.node.on_cluster import Hosts, node_server
from tests.node.schema import Operation, served
from tests.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

#: What a site can switch off, and a PATH without Slurm.
OFF = ("--HpcExtension.gpus_enabled=False", "--HpcExtension.storage_enabled=False")
NO_SLURM = {"PATH": "/nowhere"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["real", "demo"])
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """A cluster with its servers; both are spoken to in threads, the demo runs in this loop."""
    folder, stack = tmp_path_factory.mktemp("answers"), ExitStack()
    try:
        if request.param == "real":
            cluster = request.getfixturevalue("cluster")
            driver = await asyncio.to_thread(_driver, cluster)
            yield await asyncio.to_thread(
                _open, stack, folder, cluster, "alice", "/home/alice", driver
            )
            await asyncio.to_thread(stack.close)
            return
        # Its home holds sockets, so its path has to be short.
        with tempfile.TemporaryDirectory(prefix="a", dir="/tmp") as short:
            async with DemoCluster(short, kill_wait=1.0) as demo:
                hosts, home = DemoHosts(demo), str(demo.layout.home)
                here = {"python": sys.executable, "host": demo.login}
                yield await asyncio.to_thread(
                    _open, stack, folder, hosts, user_name(), home, {}, **here
                )
                await asyncio.to_thread(stack.close)
    finally:
        stack.close()


def _driver(cluster: Cluster) -> dict[str, str]:
    """The environment of a node with GPUs: the driver's library is there, one of ours."""
    cluster.run("gpu01", ["mkdir", "-p", "/home/alice/nvml"], user="alice", check=True)
    shutil.copy(library_folder() / NAME, cluster.home("alice") / "nvml" / NAME)
    return {"LD_LIBRARY_PATH": "/home/alice/nvml", "FAKE_NVML_PROCESS": "0:1:1048576"}


def _open(
    stack: ExitStack,
    folder: Path,
    hosts: Hosts,
    user: str,
    home: str,
    environment: dict[str, str],
    **where: Any,
) -> World:
    """The two servers and the files; `stack` ends them."""
    where |= {"user": user, "home": home}
    root = ("--ServerApp.allow_root=True",)
    write_standin(hosts.home(user) / "packages")
    environment = {**environment, "PYTHONPATH": f"{home}/packages"}
    server = stack.enter_context(
        node_server(hosts, folder, settings=root, environment=environment, **where)
    )
    where |= {"job": (), "settings": (*root, *OFF), "environment": NO_SLURM}
    bare = stack.enter_context(node_server(hosts, folder, **where))
    return stack.enter_context(prepared(World(hosts, user, home, server, bare)))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_answer(world: World, case: Case) -> None:
    status, answer = await asyncio.to_thread(case.ask, world)
    assert status == case.status, answer


@pytest.mark.parametrize("operation", sorted(served()), ids=" ".join)
async def test_a_stranger_is_refused_in_the_same_shape(world: World, operation: Operation) -> None:
    path = operation.path.removeprefix("/jupyter-hpc/")
    address = path.format(job_id="1", run_id="1", action="cancel")
    ask = world.server.ask
    status, error = await asyncio.to_thread(ask, address, operation.verb.upper(), "wrong")
    assert (status, set(error)) == (403, {"message", "hint"})


async def test_an_address_that_is_not_there(world: World) -> None:
    for verb, address, expected in (("GET", "secrets", 404), ("POST", "session", 405)):
        status, error = await asyncio.to_thread(world.server.ask, address, verb)
        assert (status, set(error)) == (expected, {"message", "hint"})


async def test_the_stream(world: World) -> None:
    """Each kind of message; the socket itself holds them against the document."""
    kinds = await asyncio.to_thread(_kinds_of_messages, world)
    news = {"session", "gpus", "jobs", "jobs update", "log"}
    assert kinds == news | {"log error", "stream error"}


def _kinds_of_messages(world: World) -> set[str]:
    log = {"topic": "log", "job": world["running"], "stream": "stdout"}
    topics = [{"topic": topic} for topic in ("session", "gpus", "jobs")]
    seen: set[str] = set()
    deadline = time.monotonic() + 2 * WAIT_SECONDS
    with world.server.stream() as stream:

        def take() -> str:
            """Take one message; its topic."""
            assert time.monotonic() < deadline, seen
            message = json.loads(stream.recv())
            topic = str(message["topic"])
            is_update = "base" in message.get("data", {})
            seen.add(topic + (" error" if "error" in message else " update" if is_update else ""))
            return topic

        stream.send(json.dumps({"watch": [*topics, log, {**log, "job": NO_JOB}]}))
        while not seen.issuperset({"session", "gpus", "jobs", "log", "log error"}):
            take()
        # More than one change between two looks is told as a whole new list.
        while "jobs update" not in seen:
            world["new_held"]
            world.server.ask("jobs?refresh=1")
            while take() != "jobs":
                pass
        stream.send("no list")
        while "stream error" not in seen:
            take()
    return seen
