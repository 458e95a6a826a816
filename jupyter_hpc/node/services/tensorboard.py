"""TensorBoard beside this server: on a private unix socket, and gone when the server is."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_hpc.errors import CommandFailed, CommandMissing, CommandTimeout, UsageError
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.tensorboard_pages import Page, log_folders, read_page
from jupyter_hpc.runner import Background
from jupyter_hpc.text import printable

#: TensorBoard reads hundreds of files of the environment, often from a slow home.
_START_SECONDS = 120.0
_LOOK_SECONDS = 10.0
_PAGE_SECONDS = 90.0

#: What adds it to the environment of the server.
INSTALL = "pip install tensorboard"

#: Each has its own process and reads its folder again and again.
_MAX_RUNNING = 8

_STARTER = Path(__file__).parent.parent / "shipped" / "tensorboard_socket.py"


@dataclass(frozen=True)
class Tensorboard:
    """One TensorBoard that answers: its folder of logs and its socket."""

    id: str
    logdir: str
    socket: str


@dataclass(frozen=True)
class _Process:
    opened: Tensorboard
    program: Background
    folder: str


def is_installed() -> bool:
    """Whether this server's environment has TensorBoard."""
    importlib.invalidate_caches()
    return importlib.util.find_spec("tensorboard") is not None


class TensorboardService:
    """Starts one TensorBoard for each folder of logs, and ends them with the server."""

    def __init__(
        self, environ: Mapping[str, str], contents_root: str | None, offload: Offload
    ) -> None:
        self._sockets = environ.get("JUPYTER_RUNTIME_DIR")
        self._root = contents_root or os.path.expanduser("~")
        self._offload = offload
        self._starting = asyncio.Lock()
        self._running: dict[str, _Process] = {}
        self._count = 0

    async def start(self, body: Any) -> Tensorboard:
        """The TensorBoard of a folder: the one that runs, or a new one once it answers."""
        logdir = await self._logdir(body)
        async with self._starting:
            self._forget_ended()
            found = self._running.get(logdir)
            if found is not None:
                return found.opened
            if not is_installed():
                raise CommandMissing(
                    "TensorBoard is not installed in the environment of this JupyterLab.",
                    f"Install it there: {INSTALL}",
                )
            if len(self._running) >= _MAX_RUNNING:
                raise UsageError(
                    f"{_MAX_RUNNING} TensorBoards run in this session already.",
                    "Use a folder above several of them: it shows all runs below it.",
                )
            process = await self._launch(logdir)
            self._running[logdir] = process
            return process.opened

    async def about(self, beside: str) -> dict[str, object]:
        """Whether it is installed, and the folders of logs beside the notebook `beside`."""
        folders = await self._offload(
            log_folders,
            self._root,
            beside,
            timeout=_LOOK_SECONDS,
            about=f"The folder of {printable(beside, 200)}",
        )
        return {"installed": is_installed(), "install": INSTALL, "folders": folders}

    async def page(
        self, board_id: str, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Page | None:
        """What the TensorBoard of that id answers; None where there is none."""
        running = (process.opened for process in self._running.values())
        board = next((each for each in running if each.id == board_id), None)
        if board is None:
            return None
        about = "TensorBoard"
        asked = (board.socket, method, target, headers, body)
        return await self._offload(read_page, *asked, timeout=_PAGE_SECONDS, about=about)

    async def _logdir(self, body: Any) -> str:
        named = body.get("logdir") if isinstance(body, dict) else None
        if not isinstance(named, str) or not named or "\0" in named:
            raise UsageError("Which folder of logs?", 'Send {"logdir": "runs"}.')
        if "://" in named:
            return named  # TensorBoard reads some kinds of storage by itself
        about = f"The folder {printable(named, 200)}"
        return await self._offload(
            _existing_folder, self._root, named, timeout=_LOOK_SECONDS, about=about
        )

    async def _launch(self, logdir: str) -> _Process:
        self._count += 1
        # 0700, with a name that nobody can have taken; short enough for a socket.
        folder = tempfile.mkdtemp(prefix="tb-", dir=self._sockets)
        log = Path(folder) / "tensorboard.log"
        opened = Tensorboard(str(self._count), logdir, f"{folder}/socket")
        program = Background([sys.executable, str(_STARTER), opened.socket, logdir], log)
        process = _Process(opened, program, folder)
        try:
            about = "TensorBoard"
            first = await self._offload(
                lambda: next(program.lines(), ""), timeout=_START_SECONDS, about=about
            )
        except CommandTimeout:
            _end(process)
            raise
        if first.strip() != "ready":
            said = _last_line(log)
            _end(process)
            raise CommandFailed(
                f"TensorBoard could not be started: {said}.",
                "Try it in a terminal of this session: tensorboard --logdir …",
            )
        return process

    def _forget_ended(self) -> None:
        for logdir, process in list(self._running.items()):
            if not process.program.running:
                del self._running[logdir]
                _end(process)

    async def stop(self) -> None:
        """End all of them."""
        running, self._running = list(self._running.values()), {}
        for process in running:
            _end(process)


def _existing_folder(root: str, named: str) -> str:
    """The folder's whole path; UsageError if there is none."""
    folder = os.path.normpath(os.path.join(root, os.path.expanduser(named)))
    if not os.path.isdir(folder):
        raise UsageError(
            f"There is no folder {printable(folder, 200)} here.",
            "Name the folder that your program writes its TensorBoard logs to.",
        )
    return folder


def _end(process: _Process) -> None:
    """Without its input it ends by itself, at once."""
    process.program.hang_up()
    shutil.rmtree(process.folder, ignore_errors=True)


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines:
            return printable(lines[-1], 300).rstrip(".")
    return "it ended without a word"
