"""A Jupyter server with the extension loaded, inside the test's own event loop.

pytest-jupyter's fixtures are used one by one: as a plugin it would also take over
the event loop of every async test of the project from pytest-asyncio.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from pytest_jupyter.jupyter_core import (  # noqa: F401
    echo_kernel_spec,
    jp_config_dir,
    jp_data_dir,
    jp_env_config_path,
    jp_env_jupyter_path,
    jp_environ,
    jp_home_dir,
    jp_kernel_dir,
    jp_runtime_dir,
    jp_system_config_path,
    jp_system_jupyter_path,
)
from pytest_jupyter.jupyter_server import (  # noqa: F401
    jp_argv,
    jp_auth_header,
    jp_base_url,
    jp_configurable_serverapp,
    jp_extension_environ,
    jp_fetch,
    jp_http_port,
    jp_logging_stream,
    jp_nbconvert_templates,
    jp_root_dir,
    jp_web_app,
    jp_ws_fetch,
)
from pytest_jupyter.pytest_tornasync import (  # noqa: F401
    http_server,
    http_server_client,
    http_server_port,
)

from tests.cluster.cluster import Cluster
from tests.node.on_cluster import NodeServer, node_server
from tests.node.schema import check_answer
from tests.node.worlds import FakeSlurm

Ask = Callable[..., Awaitable[tuple[int, Any]]]
Programs = Callable[..., None]


@pytest_asyncio.fixture
async def jp_asyncio_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_hpc": True}}}


@pytest.fixture
def jp_serverapp(
    jp_server_config: dict[str, Any],
    jp_argv: list[str],  # noqa: F811
    jp_configurable_serverapp: Any,  # noqa: F811
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[ServerApp]:
    """The server; its extensions are stopped and its sockets closed afterwards."""
    app = jp_configurable_serverapp(config=jp_server_config, argv=jp_argv)
    yield app
    jp_asyncio_loop.run_until_complete(app._cleanup())
    app.kernel_manager.context.destroy()
    ServerApp.clear_instance()


@pytest.fixture
def ask(jp_fetch: Any) -> Ask:  # noqa: F811
    """`await ask("jobs")` gives (status, JSON), which openapi.yaml has for this address."""

    async def ask(path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
        if method == "POST":
            options.setdefault("body", "")
        options.setdefault("request_timeout", 100)
        options.setdefault("connect_timeout", 100)
        parts = path.split("/")
        answer = await jp_fetch("jupyter-hpc", *parts, method=method, raise_error=False, **options)
        assert answer.headers["Content-Type"].startswith("application/json")
        value = json.loads(answer.body)
        check_answer(method, path, answer.code, value)
        return answer.code, value

    return ask


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A PATH with nothing on it but env and what the test writes: `programs(squeue="…")`."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("env", "sh", "sleep", "cat", "date"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))

    def write(**scripts: str) -> None:
        for name, body in scripts.items():
            file = folder / name
            file.write_text(f"#!/bin/sh\n{body}\n")
            file.chmod(0o755)

    return write


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture(scope="module")
def panels(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeServer]:
    """Alice's server in a job with one GPU; Slurm is asked as often as a test wants."""
    cluster.heal()
    with node_server(cluster, tmp_path_factory.mktemp("panels")) as server:
        yield server
    cluster.heal()
