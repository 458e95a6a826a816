"""When a session asks for its successor, and what both jobs cost while they run side by side."""

from __future__ import annotations

import logging
import math
import time

from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.errors import HpcError
from jupyter_hpc.slurm import allocate
from jupyter_hpc.slurm.cost import cost_of_time
from jupyter_hpc.slurm.models import Request

_log = logging.getLogger(__name__)

#: The successor is to start so long before it is needed, as far as the queue can be foreseen.
_LEAD_SECONDS = 600.0
#: Where nobody knows how long it would wait, it is asked for so long before the time limit.
_UNFORESEEN_SECONDS = 900.0
#: Waits that are longer than this are not foreseen; Slurm is asked no earlier.
_HORIZON_SECONDS = 6 * 3600.0
#: Between two questions to Slurm how long a job like this would wait; when the limit is near,
#: what was short may have become long meanwhile.
_ESTIMATE_SECONDS = 600.0
_NEAR_ESTIMATE_SECONDS = 120.0
_NEAR_SECONDS = 1800.0


class RenewalSchedule:
    """Knows the time limit of the session's job, and how long the next one would wait."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._estimated_at = -_ESTIMATE_SECONDS
        self._wait_seconds: float | None = None

    def start_over(self) -> None:
        """The session has another job."""
        self._estimated_at = -_ESTIMATE_SECONDS

    @property
    def left(self) -> float | None:
        """Seconds until the time limit, None where there is none."""
        ends_at = self._context.ends_at
        return None if ends_at is None else ends_at - time.time()

    def cost(self, request: Request) -> str:
        """What it costs that both jobs run until the time limit, as a sentence."""
        if self.left is None:
            return "While both jobs run, both are charged."
        minutes = max(1, math.ceil(self.left / 60))
        budget = self._context.profile.budget
        cost = cost_of_time(request, budget.rates, budget.unit, minutes * 60)
        counted = "1 minute" if minutes == 1 else f"{minutes} minutes"
        return (
            f"Both jobs run side by side for at most {counted}, and both are charged: about {cost}."
        )

    async def due(self, request: Request) -> bool:
        """Whether it is time to ask for the successor."""
        # A short job has at least half of its time before the next one is asked for. The
        # largest limit counts: one that was shortened says nothing of the next job's.
        limit = self._context.longest_limit or _HORIZON_SECONDS
        left = self.left
        if left is None or left > min(_HORIZON_SECONDS, limit / 2):
            return False
        every = _NEAR_ESTIMATE_SECONDS if left <= _NEAR_SECONDS else _ESTIMATE_SECONDS
        wait = await self._estimate(request, every)
        if wait is None:
            return left <= _UNFORESEEN_SECONDS
        return left - wait <= _LEAD_SECONDS

    async def _estimate(self, request: Request, every: float) -> float | None:
        """How long such a job would wait now, in seconds; asked `every` so many."""
        if time.monotonic() - self._estimated_at >= every:
            self._estimated_at = time.monotonic()
            self._wait_seconds = None
            try:
                slurm = self._context.slurm
                found = await slurm.test_only(request, allocate.keep_alive_script())
                if found.start is not None:
                    self._wait_seconds = max(0.0, found.start - time.time())
            except HpcError as error:
                _log.info("how long a successor would wait is not known: %s", error.message)
        return self._wait_seconds
