"""What the services need of the Jupyter server around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jupyter_hpc.node.services.memory_kills import MemoryKill


async def _no_sessions() -> list[Mapping[str, Any]]:
    return []


async def _no_session(session: Mapping[str, str]) -> None:
    return None


async def _no_value(kernel_id: str, expression: str, seconds: float) -> str:
    return ""


class ServerHooks(NamedTuple):
    """What the services need of the Jupyter server around them."""

    #: The sessions of notebooks and consoles, as the sessions API gives them.
    list_sessions: Callable[[], Awaitable[list[Mapping[str, Any]]]] = _no_sessions
    #: The process of a kernel, by the kernel's id.
    kernel_pid: Callable[[str], int | None] = lambda kernel_id: None
    #: Told about each job that was cancelled.
    on_cancel: Callable[[str], None] = lambda job_id: None
    #: Told about each notebook that became a job: its id and the notebook's path.
    on_submit: Callable[[str, str], None] = lambda job_id, path: None
    #: Told that the session moves on to another server.
    on_leave: Callable[[], None] = lambda: None
    #: Told that something was ended for want of memory.
    on_memory_kill: Callable[[MemoryKill], None] = lambda kill: None
    #: The shells of terminals: name and process.
    terminals: Callable[[], Mapping[str, int]] = dict
    #: A terminal of that name in that folder ("": as usual).
    open_terminal: Callable[[str, str], None] = lambda name, cwd: None
    #: A session with a new kernel, both under given ids; see services/workbench.py.
    start_session: Callable[[Mapping[str, str]], Awaitable[None]] = _no_session
    #: The language of a kernel, by the kernel's id.
    kernel_language: Callable[[str], str] = lambda kernel_id: ""
    #: The value of an expression in a kernel, as text, within so many seconds.
    evaluate: Callable[[str, str, float], Awaitable[str]] = _no_value
    #: The folder that the file browser shows.
    contents_root: str | None = None
