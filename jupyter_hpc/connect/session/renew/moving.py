"""What is open moves along: kernels are new under their old ids, terminals in their folders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.clusters.sections import JupyterSettings
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.slurm.units import read_memory
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: Open tabs get so long to save; a file is written in a fraction of it.
_SAVE_SECONDS = 1.0
_LEAVE_SECONDS = 10.0
#: Kernels start within seconds, or on a cold file system within a minute.
_RESTORE_SECONDS = 90.0
#: So much longer each of both may take where kernels write or read their variables.
_CARRY_SECONDS = 120.0

_TOO_OLD = (
    "No variables were carried over: the jupyter-hpc of the cluster's environment is too old "
    "for it (pip install -U jupyter-hpc)."
)

#: So many names are said; the page shows all of them.
_MAX_SAID = 8


@dataclass(frozen=True)
class CarryLimits:
    """How much of what kernels know goes along."""

    each_bytes: int
    total_bytes: int

    @classmethod
    def of(cls, settings: JupyterSettings) -> CarryLimits:
        """As the profile says."""
        return cls(_bytes(settings.carry_each), _bytes(settings.carry_total))


def _bytes(memory: str) -> int:
    return int((read_memory(memory) or 0) * 2**20)


async def move_workbench(
    old: Link, new: Link, token: str, *, browsers: bool, carry: CarryLimits | None
) -> str:
    """Open in the new server what is open in the old one; a sentence on what did not work.

    Both need our extension; without it the page stays, and asks for kernels itself.
    """
    longer = _CARRY_SECONDS if carry is not None else 0.0
    asked = None
    if carry is not None:
        asked = {"each_bytes": carry.each_bytes, "total_bytes": carry.total_bytes}
    status, found = await jupyter_api.request(
        old,
        "POST",
        "/jupyter-hpc/leave",
        token,
        timeout=_LEAVE_SECONDS + longer,
        body={"variables": asked},
    )
    if status != 200 or not isinstance(found, dict):
        _log.info("what is open is not known: the server answers %d", status)
        return "Choose a kernel for each notebook."
    saving = asyncio.sleep(_SAVE_SECONDS if browsers else 0.0)
    (status, answer), _ = await asyncio.gather(
        jupyter_api.request(
            new,
            "POST",
            "/jupyter-hpc/restore",
            token,
            timeout=_RESTORE_SECONDS + longer,
            body=found,
        ),
        saving,
    )
    if status != 200 or not isinstance(answer, dict):
        _log.info("what was open was not opened: the server answers %d", status)
        return "Choose a kernel for each notebook."
    problems = [printable(str(text), 200) for text in answer.get("problems", [])]
    said = [f"Not started: {'; '.join(problems)}."] if problems else []
    if carry is not None and "carried" not in answer:
        said.append(_TOO_OLD)
    elif carry is not None:
        kernels = [row for row in answer.get("carried") or [] if isinstance(row, dict)]
        said += [_carried(row) for row in kernels]
    return " ".join(said)


def _carried(kernel: Mapping[str, Any]) -> str:
    """What became of the variables of one kernel."""
    path = printable(str(kernel.get("path", "")), 100)
    names, left = kernel.get("names") or [], kernel.get("left") or []
    _log.info("%s: carried over: %s", path, ", ".join(map(str, names)) or "nothing")
    for one in left:
        _log.info("%s: left: %s: %s", path, one.get("name"), one.get("reason"))
    if kernel.get("problem"):
        return f"{path}: no variables were carried over: {printable(str(kernel['problem']), 300)}"
    words = f"{path}: {len(names)} variable{'' if len(names) == 1 else 's'} carried over"
    if left:
        told = [
            f"{printable(str(one.get('name')), 60)} ({printable(str(one.get('reason')), 120)})"
            for one in left[:_MAX_SAID]
        ]
        more = f" and {len(left) - _MAX_SAID} more" if len(left) > _MAX_SAID else ""
        words += f", not: {', '.join(told)}{more}"
    return f"{words}."
