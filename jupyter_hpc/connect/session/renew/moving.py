"""What is open moves along: kernels are new under their old ids, terminals in their folders."""

from __future__ import annotations

import asyncio
import logging

from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: Open tabs get so long to save; a file is written in a fraction of it.
_SAVE_SECONDS = 1.0
_LEAVE_SECONDS = 10.0
#: Kernels start within seconds, or on a cold file system within a minute.
_RESTORE_SECONDS = 90.0


async def move_workbench(old: Link, new: Link, token: str, *, browsers: bool) -> str:
    """Open in the new server what is open in the old one; a sentence on what did not work.

    Both need our extension; without it the page stays, and asks for kernels itself.
    """
    status, found = await jupyter_api.request(
        old, "POST", "/jupyter-hpc/leave", token, timeout=_LEAVE_SECONDS
    )
    if status != 200 or not isinstance(found, dict):
        _log.info("what is open is not known: the server answers %d", status)
        return "Choose a kernel for each notebook."
    saving = asyncio.sleep(_SAVE_SECONDS if browsers else 0.0)
    (status, answer), _ = await asyncio.gather(
        jupyter_api.request(
            new, "POST", "/jupyter-hpc/restore", token, timeout=_RESTORE_SECONDS, body=found
        ),
        saving,
    )
    if status != 200 or not isinstance(answer, dict):
        _log.info("what was open was not opened: the server answers %d", status)
        return "Choose a kernel for each notebook."
    problems = [printable(str(text), 200) for text in answer.get("problems", [])]
    return f"Not started: {'; '.join(problems)}" if problems else ""
