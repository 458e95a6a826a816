"""TensorBoard beside the server, without a cluster."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_hpc.errors import CommandFailed, CommandMissing, UsageError
from jupyter_hpc.node.services import tensorboard
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.tensorboard import TensorboardService
from tests.node.boards import write_standin
from tests.waiting import until


def read(path: str) -> str:
    """The page behind a unix socket."""
    client = http.client.HTTPConnection("localhost", timeout=20)
    client.sock = socket.socket(socket.AF_UNIX)
    try:
        client.sock.connect(path)
        client.request("GET", "/")
        return client.getresponse().read().decode()
    finally:
        client.close()


@pytest.fixture
async def service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TensorboardService]:
    write_standin(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages"), *sys.path])
    (tmp_path / "run").mkdir()
    (tmp_path / "root" / "runs").mkdir(parents=True)
    environ = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "run")}
    made = TensorboardService(environ, str(tmp_path / "root"), Offload())
    yield made
    await made.stop()


async def test_it_answers_on_a_private_socket_and_ends_with_the_server(
    service: TensorboardService, tmp_path: Path
) -> None:
    board = await service.start({"logdir": "runs"})
    assert board.logdir == str(tmp_path / "root/runs")
    assert await asyncio.to_thread(read, board.socket) == f"TensorBoard of {board.logdir}"
    folder = os.path.dirname(board.socket)
    assert os.path.dirname(folder) == str(tmp_path / "run")
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    # The same folder again, however it is named, is the same TensorBoard.
    assert await service.start({"logdir": str(tmp_path / "root/../root/runs/")}) == board
    (program,) = (process.program for process in service._running.values())
    await service.stop()
    await until(lambda: not program.running)
    assert list((tmp_path / "run").iterdir()) == []


async def test_one_that_was_killed_is_started_again(service: TensorboardService) -> None:
    board = await service.start({"logdir": "runs"})
    (program,) = (process.program for process in service._running.values())
    program.hang_up()
    await until(lambda: not program.running)
    again = await service.start({"logdir": "runs"})
    assert again.socket != board.socket
    assert "TensorBoard of" in await asyncio.to_thread(read, again.socket)


@pytest.mark.parametrize("body", [None, [], {}, {"logdir": 3}, {"logdir": ""}, {"logdir": "\0"}])
async def test_what_names_no_folder_is_refused(service: TensorboardService, body: object) -> None:
    with pytest.raises(UsageError, match="Which folder"):
        await service.start(body)


async def test_a_folder_that_is_not_there_is_named(service: TensorboardService) -> None:
    with pytest.raises(UsageError, match=r"There is no folder .*root/rnus here"):
        await service.start({"logdir": "rnus"})


async def test_what_tensorboard_says_when_it_fails_is_said(
    service: TensorboardService, tmp_path: Path
) -> None:
    (tmp_path / "root/broken").mkdir()
    with pytest.raises(CommandFailed, match=r"could not be started: .*logs cannot be read"):
        await service.start({"logdir": "broken"})
    assert list((tmp_path / "run").iterdir()) == []


async def test_an_environment_without_it_is_told_what_to_install(
    service: TensorboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "is_installed", lambda: False)
    with pytest.raises(CommandMissing, match=r"not installed.*pip install tensorboard"):
        await service.start({"logdir": "runs"})


async def test_its_page_is_read_from_its_socket(service: TensorboardService) -> None:
    board = await service.start({"logdir": "runs"})
    page = await service.page(board.id, "GET", "/?a=b", {"Accept": "*/*"}, b"")
    assert page is not None and page.status == 200
    assert page.body.decode() == f"TensorBoard of {board.logdir}"
    assert page.headers == {"Content-Type": "text/plain"}
    assert await service.page("99", "GET", "/", {}, b"") is None
    os.unlink(board.socket)
    with pytest.raises(CommandFailed, match="TensorBoard does not answer"):
        await service.page(board.id, "GET", "/", {}, b"")


async def test_logs_beside_the_notebook_are_found(
    service: TensorboardService, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for name in ("a/runs/1/2", "a/lightning_logs/version_0", "a/.hidden/1", "a/1/2/3/4/5/6", "b"):
        (root / name).mkdir(parents=True)
        (root / name / "events.out.tfevents.1.host").touch()
    found = await service.about("a/train.ipynb")
    assert found["folders"] == ["a/lightning_logs", "a/runs"] and found["installed"] is True
    (root / "a/events.out.tfevents.2.host").touch()
    assert (await service.about("a/train.ipynb"))["folders"] == ["a", "a/lightning_logs", "a/runs"]
    assert (await service.about("b/"))["folders"] == ["b"]
    assert (await service.about("../../x"))["folders"] == []
    assert (await service.about("none/x.ipynb"))["folders"] == []


async def test_there_is_an_end_to_how_many_are_started(
    service: TensorboardService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "_MAX_RUNNING", 1)
    await service.start({"logdir": "runs"})
    with pytest.raises(UsageError, match="1 TensorBoards run"):
        await service.start({"logdir": str(tmp_path)})
