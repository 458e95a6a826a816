"""The end of a change: the successor gets the session's name, and the old job is given back.

Until both is done two jobs are charged, and a connect from elsewhere goes back to the old one. So
what a cut or a controller that is away has prevented is tried until it is done.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from jupyter_hpc.connect.events import Warned
from jupyter_hpc.connect.job.endings import cancel_for_sure, is_over
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.errors import HpcError, SlurmError
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: The first attempt holds up the session that has changed already, the last one its end.
_BOUND_SECONDS = 15.0


@dataclass
class TakeOver:
    """One session that went on in `job_id`, to be called `name`; `old_id` is left."""

    context: SessionContext
    old_id: str
    job_id: str
    name: str
    refused: str = ""  #: why the job may not have the name, once Slurm has said so
    _named: bool = False
    _failed: bool = False

    async def begin(self, text: str) -> bool:
        """The first attempt; `text` tells of the change. Whether all is done."""
        try:
            said = await within(self._attempt(), _BOUND_SECONDS)
        except (HpcError, TimeoutError, asyncio.TimeoutError) as error:
            self._failed = True
            why = error.message if isinstance(error, HpcError) else "Slurm has not answered yet."
            self._tell(
                f"{text} Job {self.old_id} could not be cancelled, and both are charged. It is "
                f"tried until it is done: {why}"
            )
            return False
        self._tell(f"{text} {said}")
        return True

    async def go_on(self) -> bool:
        """A further attempt; whether all is done."""
        try:
            self._tell(await self._attempt())
        except HpcError as error:
            _log.info("job %s is not given back yet: %s", self.old_id, error.message)
            return False
        return True

    async def give_up(self) -> None:
        """The last attempt, as the session is over; what does not work is said."""
        try:
            self._tell(await within(self._attempt(), _BOUND_SECONDS))
        except (HpcError, TimeoutError, asyncio.TimeoutError):
            self._tell(
                f"Job {self.old_id}, which the session has left, could not be cancelled and may "
                f"go on. On the cluster: scancel {self.old_id}"
            )

    async def _attempt(self) -> str:
        """Both, in this order: a connect from elsewhere finds the older of two that are called
        the same, and never none. What came of it, in a sentence.
        """
        slurm = self.context.slurm
        if not self._named:
            try:
                await slurm.rename(self.job_id, self.name)
            except SlurmError as error:
                if error.transient:
                    raise
                self.refused = error.message
            self._named = True
        kept = f"Job {self.job_id} keeps the name of a successor: {self.refused} "
        kept = kept if self.refused else ""
        if self._failed and await is_over(slurm, self.old_id):
            return f"{kept}Job {self.old_id} is over."
        await cancel_for_sure(slurm, self.old_id)
        return f"{kept}Job {self.old_id} was cancelled."

    def _tell(self, text: str) -> None:
        self.context.listener.on_event(Warned(text))
