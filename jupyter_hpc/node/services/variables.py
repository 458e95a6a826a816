"""What kernels know goes along to the kernels of the next server, as far as it can be pickled.

The files lie for a moment in a folder of the user's own below the home folder, which both jobs
see. To read a pickle is to run it; so the folder is 0700 and new, the file is 0600 and checked
for its owner, and its digest comes from the server that wrote it, not from the folder.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.node.services.hooks import ServerHooks

_log = logging.getLogger(__name__)

_SHIPPED = Path(__file__).parent.parent / "shipped" / "carry_variables.py"

#: What no variable and no kernel may take longer, in seconds.
_EACH_SECONDS = 15.0
_KERNEL_SECONDS = 45.0
#: All kernels together; whoever moves the session waits longer than this.
_ALL_SECONDS = 90.0
#: A kernel that works when the session has to move on gets so long to finish.
_BUSY_SECONDS = 10.0
#: A kernel that is new takes so long until it listens, on a cold file system.
_START_SECONDS = 60.0

#: So many names are listed for one kernel; nobody reads more.
_MAX_LISTED = 200
_PREFIX = "variables-"
_FILE = re.compile(r"[0-9]{1,3}\.pickle")


@dataclass(frozen=True)
class Limits:
    """How much may be carried over, in bytes."""

    each_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Carried:
    """The variables of one kernel: which are in the file, and why others are not."""

    path: str  #: of the notebook
    kernel_id: str
    names: tuple[str, ...] = ()
    left: tuple[dict[str, str], ...] = ()
    problem: str = ""  #: why there are none at all
    file: str = ""
    digest: str = ""

    def shown(self) -> dict[str, object]:
        """What a page may know of it."""
        members = ("path", "kernel_id", "names", "left", "problem")
        return {name: getattr(self, name) for name in members}


class VariablesService:
    """Writes the variables of this server's kernels, and reads those of another's."""

    def __init__(self, hooks: ServerHooks, environ: Mapping[str, str]) -> None:
        self._hooks = hooks
        self._environ = environ
        self._folder = ""

    async def write(self, sessions: list[Mapping[str, Any]], limits: Limits) -> dict[str, object]:
        """{"folder", "kernels"}: the variables of each session's kernel, one after the other."""
        await self.remove()
        folder = await asyncio.to_thread(self._make_folder)
        self._folder = folder
        ends = asyncio.get_running_loop().time() + _ALL_SECONDS
        room = limits.total_bytes
        kernels: list[Carried] = []
        for number, model in enumerate(sessions):
            kernel, path = model.get("kernel") or {}, str(model.get("path", ""))
            kernel_id = str(kernel.get("id", ""))
            left = ends - asyncio.get_running_loop().time()
            busy = kernel.get("execution_state") == "busy"
            asked = {
                "do": "write",
                "file": os.path.join(folder, f"{number}.pickle"),
                "each_bytes": min(limits.each_bytes, room),
                "total_bytes": room,
                "each_seconds": _EACH_SECONDS,
                "seconds": max(1.0, min(_KERNEL_SECONDS, left) - 5.0),
            }
            seconds = min(_BUSY_SECONDS if busy else _KERNEL_SECONDS, max(1.0, left))
            answer = await self._evaluate(kernel_id, asked, seconds, busy=busy)
            room -= answer["bytes"]
            written = bool(answer["digest"])
            kernels.append(
                Carried(
                    path,
                    kernel_id,
                    tuple(answer["names"]) if written else (),
                    tuple(answer["left"]),
                    answer["problem"],
                    f"{number}.pickle" if written else "",
                    answer["digest"],
                )
            )
        return {"folder": folder, "kernels": [asdict(kernel) for kernel in kernels]}

    async def read(self, body: object) -> list[Carried]:
        """Put what `write` of the other server answered into the kernels here, then remove it.

        Raises UsageError for a body that is no such answer, and for a folder that is not ours.
        """
        folder, kernels = _checked(body)
        try:
            if any(kernel.file for kernel in kernels):
                await asyncio.to_thread(_check_folder, folder)
            return list(await asyncio.gather(*(self._read(folder, each) for each in kernels)))
        finally:
            if await asyncio.to_thread(_is_ours, folder):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _read(self, folder: str, kernel: Carried) -> Carried:
        if not kernel.file:
            return kernel
        file = os.path.join(folder, kernel.file)
        names = list(kernel.names)
        asked = {"do": "read", "file": file, "digest": kernel.digest, "names": names}
        seconds = _START_SECONDS + _KERNEL_SECONDS
        answer = await self._evaluate(kernel.kernel_id, asked, seconds, busy=False)
        left = (*kernel.left, *answer["left"])
        return Carried(
            kernel.path, kernel.kernel_id, tuple(answer["names"]), left, answer["problem"]
        )

    async def _evaluate(
        self, kernel_id: str, asked: Mapping[str, Any], seconds: float, *, busy: bool
    ) -> dict[str, Any]:
        """What the kernel answers; a problem in its place for whatever goes wrong."""
        try:
            language = self._hooks.kernel_language(kernel_id)
            if language != "python":
                named = printable(language, 40) or "unknown"
                return _problem(
                    f"this is only done for Python kernels, and its language is {named}"
                )
            source = await asyncio.to_thread(_SHIPPED.read_text, encoding="utf-8")
            # One expression, so that no name of it stays in the notebook's variables.
            expression = (
                "(lambda space: (exec(compile("
                f"{source!r}, 'jupyter-hpc', 'exec'), space), __import__('json').dumps("
                f"space['carry'](__import__('json').loads({json.dumps(asked)!r}), "
                "get_ipython())))[1])({'__name__': 'jupyter_hpc_carry'})"
            )
            text = await self._hooks.evaluate(kernel_id, expression, seconds)
            return _answer(json.loads(ast.literal_eval(text)))
        except (TimeoutError, asyncio.TimeoutError):
            why = "worked on a cell" if busy else "did not answer"
            return _problem(f"the kernel {why} for {seconds:g} s")
        except Exception as error:
            # Whatever a kernel's installation raises is no reason to lose the others.
            _log.info("variables of kernel %s: %r", kernel_id, error)
            return _problem(f"{type(error).__name__}: {printable(str(error), 200)}")

    def _make_folder(self) -> str:
        """A new folder, 0700, that the next job sees too; of jobs of long ago they are removed."""
        state = os.path.expanduser("~/.local/state/jupyter-hpc/jobs")
        place = os.path.join(state, self._environ.get("SLURM_JOB_ID", "") or "none")
        os.makedirs(place, mode=0o700, exist_ok=True)
        return tempfile.mkdtemp(prefix=_PREFIX, dir=place)

    async def remove(self) -> None:
        """Remove what was written here and not read yet."""
        folder, self._folder = self._folder, ""
        if folder:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def stop(self) -> None:
        """The server ends: whoever was to read the files has done so."""
        await self.remove()


def read_limits(body: object) -> Limits | None:
    """The limits in the body of a request; None where no variables are asked for."""
    asked = body.get("variables") if isinstance(body, dict) else None
    if asked is None:
        return None
    given = [asked.get(name) if isinstance(asked, dict) else None for name in _LIMITS]
    if not all(isinstance(value, int) and value >= 0 for value in given):
        raise UsageError(f"variables has the whole numbers {' and '.join(_LIMITS)}.", "")
    return Limits(*given)  # type: ignore[arg-type]  # checked above


_LIMITS = ("each_bytes", "total_bytes")


def _problem(text: str) -> dict[str, Any]:
    return {"names": [], "left": [], "problem": text, "digest": "", "bytes": 0}


def _answer(value: Any) -> dict[str, Any]:
    """The kernel's answer; what runs there is the user's, so it may be anything."""
    answer = value if isinstance(value, dict) else {}
    left = [
        {"name": printable(str(row["name"]), 100), "reason": printable(str(row["reason"]), 200)}
        for row in answer["left"]
    ]
    if len(left) > _MAX_LISTED:
        more = len(left) - _MAX_LISTED
        left = [*left[:_MAX_LISTED], {"name": "…", "reason": f"and {more} more"}]
    return {
        "names": [str(name) for name in answer["names"]],
        "left": left,
        "problem": printable(str(answer["problem"]), 300),
        "digest": str(answer["digest"]),
        "bytes": int(answer["bytes"]),
    }


def _checked(body: object) -> tuple[str, list[Carried]]:
    members = body if isinstance(body, dict) else {}
    folder, rows = members.get("folder"), members.get("kernels")
    try:
        kernels = [
            Carried(**{**row, "names": tuple(row["names"]), "left": tuple(row["left"])})
            for row in rows or []
        ]
    except (TypeError, KeyError) as error:
        raise UsageError("The variables are not as another server wrote them.", "") from error
    texts = [text for kernel in kernels for text in (kernel.path, kernel.kernel_id, kernel.file)]
    if not isinstance(folder, str) or not all(isinstance(text, str) for text in texts):
        raise UsageError("The variables are not as another server wrote them.", "")
    for kernel in kernels:
        if kernel.file and not _FILE.fullmatch(kernel.file):
            raise UsageError("This is no file of variables.", "")
    return folder, kernels


def _is_ours(folder: str) -> bool:
    """Whether it is a folder that a server of this user made for variables, and nothing else."""
    if not os.path.isabs(folder) or not os.path.basename(folder).startswith(_PREFIX):
        return False
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    private = about.st_uid == os.getuid() and not stat.S_IMODE(about.st_mode) & 0o077
    return stat.S_ISDIR(about.st_mode) and private


def _check_folder(folder: str) -> None:
    if not _is_ours(folder):
        raise UsageError(
            f"{printable(folder, 200)} is no folder that only this user can read and write.", ""
        )
