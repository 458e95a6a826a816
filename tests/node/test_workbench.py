"""What is open in one server is opened in the next, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import UsageError
from jupyter_hpc.node.services.hooks import ServerHooks
from jupyter_hpc.node.services.variables import VariablesService
from jupyter_hpc.node.services.workbench import WorkbenchService

SESSION = {
    "id": "11111111-1111-1111-1111-111111111111",
    "path": "a.ipynb",
    "name": "a.ipynb",
    "type": "notebook",
    "kernel_id": "22222222-2222-2222-2222-222222222222",
    "kernel_name": "python3",
}


class Server:
    """A Jupyter server of values."""

    def __init__(self) -> None:
        self.sessions: list[Mapping[str, Any]] = []
        self.shells: dict[str, int] = {}
        self.started: list[Mapping[str, str]] = []
        self.opened: list[tuple[str, str]] = []
        self.left = 0
        self.failure: Exception | None = None

    def service(self) -> WorkbenchService:
        hooks = ServerHooks(
            list_sessions=self._list,
            terminals=lambda: self.shells,
            open_terminal=lambda name, cwd: self.opened.append((name, cwd)),
            start_session=self._start,
            on_leave=self._leave,
        )
        return WorkbenchService(hooks, VariablesService(hooks, {}))

    async def _list(self) -> list[Mapping[str, Any]]:
        return self.sessions

    async def _start(self, session: Mapping[str, str]) -> None:
        if self.failure is not None:
            raise self.failure
        self.started.append(session)

    def _leave(self) -> None:
        self.left += 1


async def test_what_leaves_is_what_the_next_server_opens() -> None:
    old, new = Server(), Server()
    kernel = {"id": SESSION["kernel_id"], "name": "python3", "execution_state": "idle"}
    plain = {name: SESSION[name] for name in ("id", "path", "name", "type")}
    old.sessions = [{**plain, "kernel": kernel, "notebook": {}}]
    old.shells = {"1": os.getpid(), "2": 2**22 + 1}
    answer = await old.service().leave()
    assert old.left == 1
    assert answer == {
        "sessions": [SESSION],
        "terminals": [{"name": "1", "cwd": os.getcwd()}, {"name": "2", "cwd": ""}],
        "variables": None,
    }
    assert await new.service().restore(answer) == {"kernels": 1, "problems": [], "carried": []}
    assert new.started == [SESSION] and new.opened == [("1", os.getcwd()), ("2", "")]


async def test_what_is_open_already_stays() -> None:
    server = Server()
    server.sessions, server.shells = [SESSION], {"1": 1}
    body = {"sessions": [SESSION], "terminals": [{"name": "1", "cwd": "/no/such"}]}
    assert await server.service().restore(body) == {"kernels": 0, "problems": [], "carried": []}
    body["terminals"] = [{"name": "2", "cwd": "/no/such"}]
    await server.service().restore(body)
    assert server.started == [] and server.opened == [("2", "")]


async def test_a_kernel_that_does_not_start_is_named() -> None:
    server = Server()
    server.failure = RuntimeError("no such\nkernel")
    answer = await server.service().restore({"sessions": [SESSION], "terminals": []})
    assert answer["problems"] == ["a.ipynb: RuntimeError: no such kernel"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"sessions": []},
        {"sessions": [3], "terminals": []},
        {"sessions": [{**SESSION, "id": "../../x"}], "terminals": []},
        {"sessions": [{**SESSION, "kernel_id": "a/b"}], "terminals": []},
        {"sessions": [{**SESSION, "path": 3}], "terminals": []},
        {"sessions": [SESSION] * 101, "terminals": []},
        {"sessions": [], "terminals": [{"name": "../1", "cwd": ""}]},
        {"sessions": [], "terminals": [{"name": "1"}]},
    ],
)
async def test_anything_else_is_refused(body: object) -> None:
    server = Server()
    with pytest.raises(UsageError):
        await server.service().restore(body)
    assert server.started == [] and server.opened == []


async def test_variables_go_along_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kernel says of them reaches the page, also where there is nothing to carry."""
    monkeypatch.setenv("HOME", str(tmp_path))
    old, new = Server(), Server()
    old.sessions = [{**SESSION, "kernel": {"id": SESSION["kernel_id"], "name": "ir"}}]
    limits = {"variables": {"each_bytes": 1, "total_bytes": 1}}
    answer = await old.service().leave(limits)
    service = new.service()
    assert service.restored() == {"carried": []}
    restored: Any = await service.restore(answer)
    (carried,) = restored["carried"]
    assert carried["path"] == "a.ipynb" and "only done for Python" in carried["problem"]
    assert service.restored() == {"carried": [carried]} and "file" not in carried
