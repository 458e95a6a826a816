"""What is open in this server, so that the next one of the session can open the same.

A session of notebooks keeps its id and its kernel's id: the page that is open goes on without
a reload, and finds a new kernel under the old name. Terminals keep name and folder.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.node.services.variables import read_limits
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.node.services.hooks import ServerHooks
    from jupyter_hpc.node.services.variables import Carried, VariablesService

#: As Jupyter makes them; they become names of files.
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TERMINAL = re.compile(r"[0-9]{1,6}|[A-Za-z0-9][A-Za-z0-9_-]{0,60}")

#: More kernels than this nobody has, and a node does not start them in time.
_MAX_SESSIONS = 100
#: So many kernels start at the same time.
_AT_ONCE = 4


class WorkbenchService:
    """Lists sessions and terminals of this server, and opens those of an earlier one."""

    def __init__(self, hooks: ServerHooks, variables: VariablesService) -> None:
        self._hooks = hooks
        self._variables = variables
        self._carried: list[Carried] = []

    async def leave(self, body: object = None) -> dict[str, object]:
        """Tell the open tabs that the session moves on, and answer what is open.

        With limits for variables in the body, kernels write down what they know.
        """
        limits = read_limits(body)
        self._hooks.on_leave()
        models = await self._hooks.list_sessions()
        sessions = [_plain(model) for model in models]
        carried = await self._variables.write(models, limits) if limits is not None else None
        terminals = [
            {"name": name, "cwd": await asyncio.to_thread(_folder_of, pid)}
            for name, pid in self._hooks.terminals().items()
        ]
        return {"sessions": sessions, "terminals": terminals, "variables": carried}

    async def restore(self, body: object) -> dict[str, object]:
        """Open what `leave` of the earlier server answered; what cannot be opened is named.

        Raises UsageError for a body that is no such answer; then nothing is opened.
        """
        sessions, terminals = _checked(body)
        known = {str(model.get("id")) for model in await self._hooks.list_sessions()}
        new = [session for session in sessions if session["id"] not in known]
        limit = asyncio.Semaphore(_AT_ONCE)

        async def start(session: Mapping[str, str]) -> str:
            async with limit:
                return await self._start(session)

        problems = [text for text in await asyncio.gather(*map(start, new)) if text]
        open_now = self._hooks.terminals()
        for terminal in terminals:
            if terminal["name"] not in open_now:
                there = await asyncio.to_thread(os.path.isdir, terminal["cwd"])
                self._hooks.open_terminal(terminal["name"], terminal["cwd"] if there else "")
        variables = body.get("variables") if isinstance(body, dict) else None
        self._carried = await self._variables.read(variables) if variables is not None else []
        return {"kernels": len(new) - len(problems), "problems": problems, **self.restored()}

    def restored(self) -> dict[str, object]:
        """What became of the variables of the kernels before, for the pages of their notebooks."""
        return {"carried": [kernel.shown() for kernel in self._carried]}

    async def _start(self, session: Mapping[str, str]) -> str:
        """Why it could not be started, or ""."""
        try:
            await self._hooks.start_session(session)
        except Exception as error:
            # Whatever a kernel's installation raises is no reason to lose the other kernels.
            path = printable(session["path"], 100)
            return f"{path}: {type(error).__name__}: {printable(str(error), 200)}"
        return ""

    async def stop(self) -> None:
        """Nothing was begun."""


def _plain(model: Mapping[str, Any]) -> dict[str, str]:
    kernel = model.get("kernel") or {}
    return {
        "id": str(model.get("id", "")),
        "path": str(model.get("path", "")),
        "name": str(model.get("name", "")),
        "type": str(model.get("type", "")),
        "kernel_id": str(kernel.get("id", "")),
        "kernel_name": str(kernel.get("name", "")),
    }


def _folder_of(pid: int) -> str:
    """The working folder of a process; "" where that cannot be seen."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _checked(body: object) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    members = body if isinstance(body, dict) else {}
    sessions = _rows(
        members.get("sessions"), ("id", "path", "name", "type", "kernel_id", "kernel_name")
    )
    terminals = _rows(members.get("terminals"), ("name", "cwd"))
    for row in sessions:
        if not _ID.fullmatch(row["id"]) or not _ID.fullmatch(row["kernel_id"]):
            raise UsageError("A session or kernel has no proper id.", "")
    for row in terminals:
        if not _TERMINAL.fullmatch(row["name"]):
            raise UsageError(f"{printable(row['name'], 60)!r} is no name of a terminal.", "")
    return sessions, terminals


def _rows(value: object, members: tuple[str, ...]) -> list[dict[str, str]]:
    rows = value if isinstance(value, list) else None
    if rows is None or len(rows) > _MAX_SESSIONS:
        raise UsageError("What was open has to be a list of sessions and one of terminals.", "")
    for row in rows:
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in members):
            raise UsageError(f"Each has the members {', '.join(members)}.", "")
    return [{name: row[name] for name in members} for row in rows]
