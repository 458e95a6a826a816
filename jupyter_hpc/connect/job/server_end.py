"""How a Jupyter that had served came to its end while its job goes on."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.launch import STEP_NAME, ServerAddress
from jupyter_hpc.connect.job.remote import first
from jupyter_hpc.connect.sentences import memory_full, more_memory, stays
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from jupyter_hpc.slurm.states import Phase, phase_of

_log = logging.getLogger(__name__)

#: launch.sh writes its last word as soon as Jupyter is gone, unless it is gone as well.
_LAST_WORD_SECONDS = 2.0

#: The accounting hears of the end of a step a moment later.
_RECORD_LOOKS = 3
_RECORD_SECONDS = 1.0

#: The exit code of a shell's child that was killed.
_KILLED = "137"


@dataclass(frozen=True)
class ServerEnd:
    """What is known of it; `limit` in bytes, None where the node had no memory left."""

    out_of_memory: bool = False
    limit: int | None = None
    code: str = ""

    @property
    def cause(self) -> str:
        """The word for it in events.CAUSES."""
        return "out_of_memory" if self.out_of_memory else "failed"

    def text(self, job_id: str, name: str, *, restarting: bool) -> str:
        """It in words, with what becomes of the job and what helps."""
        then = "It is being started again in the same job." if restarting else stays(job_id, name)
        if self.out_of_memory:
            return (
                f"JupyterLab was ended, and its kernels with it: {memory_full(self.limit)} {then} "
                f"{more_memory(self.limit, name)}"
            )
        return f"Jupyter ended{f' with exit code {self.code}' if self.code else ''}. {then}"


async def how_server_ended(
    on_node: Runner, slurm: SlurmClient, address: ServerAddress, job: Job, known_kills: int
) -> ServerEnd:
    """Asks launch.sh, and where it has ended without a word, Slurm.

    `known_kills` is how much the system had ended for want of memory when Jupyter was last
    heard of: only what came after that can be the cause.
    """
    try:
        found, fields = await remote.await_file(
            on_node, address.session, ["ended"], _LAST_WORD_SECONDS
        )
        if not found:
            limit = (job.memory_mb or 0) // max(1, job.node_count or 1) * 2**20
            return ServerEnd(await _step_out_of_memory(slurm, job.job_id), limit or None)
    except HpcError as error:
        _log.info("how Jupyter ended could not be asked: %s", error.message)
        return ServerEnd()
    code, kills, most = (first(fields, name) for name in ("code", "killed", "limit"))
    counted = int(kills) if kills.isdecimal() else 0
    return ServerEnd(
        code == _KILLED and counted > known_kills, int(most) if most.isdecimal() else None, code
    )


async def _step_out_of_memory(slurm: SlurmClient, job_id: str) -> bool:
    """Whether Slurm says so of the newest step with a Jupyter in it."""
    for look in range(_RECORD_LOOKS):
        if look:
            await asyncio.sleep(_RECORD_SECONDS)
        ours = [step.state for step in await slurm.steps(job_id) if step.name == STEP_NAME]
        if ours and phase_of(ours[-1]) is Phase.ENDED:
            return ours[-1] == "OUT_OF_MEMORY"
    return False
