"""The extension app: light to load, configurable, and gone when the server stops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.node import events
from jupyter_hpc.node.app import HpcExtension
from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.settings import NodeSettings
from tests.gpu.library import library_folder
from tests.node.conftest import Ask, Programs
from tests.tools import ROOT
from tests.waiting import until

HEAVY = ("pynvml", "psutil", "jupyter_hpc.slurm.client", "jupyter_hpc.gpu.nvml", "asyncssh")


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys, jupyter_server.serverapp, jupyter_server.extension.application\n"
        "before = set(sys.modules)\n"
        "import jupyter_hpc.node.app\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    run = [sys.executable, "-c", code]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert "jupyter_hpc.node.app" in loaded
    assert not set(loaded) & set(HEAVY)
    ours = [name for name in loaded if name.startswith("jupyter_hpc.node.services.")]
    light = ("hooks", "registry")
    assert ours == [f"jupyter_hpc.node.services.{name}" for name in light]


def test_every_setting_has_a_trait_with_help_and_the_same_default() -> None:
    app = HpcExtension()
    for name in NodeSettings._fields:
        trait = HpcExtension.class_traits(config=True)[name]
        assert trait.help.endswith("."), name
    assert app._node_settings() == NodeSettings()


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {
        "ServerApp": {"jpserver_extensions": {"jupyter_hpc": True}},
        "HpcExtension": {
            "job_actions_enabled": False,
            "storage_enabled": False,
            "gpus_enabled": False,
            "logs_enabled": False,
            "jobs_enabled": False,
            "batch_enabled": False,
        },
    }


async def test_what_a_site_switches_off_is_refused_in_words(ask: Ask, programs: Programs) -> None:
    _, session = await ask("session")
    assert set(session["features"].values()) == {False}
    for path in ("storage", "jobs", "jobs/1/log"):
        status, error = await ask(path)
        assert (status, "switched off" in error["message"]) == (403, True)
    status, error = await ask("gpus")
    assert (status, "switched off" in error["message"]) == (503, True)
    for path in ("jobs/1/cancel", "convert", "submit"):
        status, error = await ask(path, "POST", body="{}")
        assert (status, "switched off" in error["message"]) == (403, True)


async def test_a_cancel_is_told_to_other_parts_of_the_server(jp_serverapp: Any) -> None:
    emitted: list[dict[str, Any]] = []

    async def listen(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        emitted.append({"schema": schema_id, **data})

    logger = jp_serverapp.event_logger
    for schema in (events.JOB_CANCELLED, events.JOB_SUBMITTED):
        logger.add_listener(schema_id=schema, listener=listen)
    services = jp_serverapp.web_app.settings["jupyter_hpc_services"]
    services.hooks.on_cancel("12_[3-4]")
    events.emit_submitted(logger, "13", "a/b.ipynb")
    await until(lambda: len(emitted) == 2)
    assert emitted == [
        {"schema": events.JOB_CANCELLED, "job_id": "12_[3-4]"},
        {"schema": events.JOB_SUBMITTED, "job_id": "13", "notebook": "a/b.ipynb"},
    ]


async def test_many_commands_that_do_not_end_are_left_behind_together() -> None:
    released = asyncio.Event()
    hanging: list[bool] = []

    async def hang() -> None:  # as one that waits for a dead file system
        hanging.append(True)
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    services = Services(NodeSettings(), {})
    stubborn = [Cached(hang, 60.0) for _ in range(12)]
    for number, cached in enumerate(stubborn):
        services.details._found[str(number)] = cached  # type: ignore[assignment]
    looking = [asyncio.create_task(cached.get()) for cached in stubborn]
    await until(lambda: len(hanging) == len(stubborn))
    began = time.monotonic()
    await services.stop()
    assert time.monotonic() - began < 5
    released.set()
    await asyncio.wait(looking)
    for look in looking:
        look.exception()


def test_a_driver_that_hangs_does_not_keep_the_server(tmp_path: Path) -> None:
    """A whole server process whose GPU library never returns still stops in time."""
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(library_folder()),
        "FAKE_NVML_HANG": "nvmlInitWithFlags",
        "CUDA_VISIBLE_DEVICES": "0",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    script = Path(__file__).with_name("hanging_server.py")
    server = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "s.sock")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
    )
    try:
        assert server.stdout is not None
        answer = json.loads(server.stdout.readline())
        assert answer["status"] == 503
        assert "driver" in answer["body"]["message"]
        assert answer["seconds"] < 30
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        # Five seconds are the promise; a machine that is busy with other tests gets more.
        server.wait(40)
        assert time.monotonic() - began < 30
    finally:
        server.kill()
        server.wait()
