"""What running jobs have used so far: asked of their nodes, so once a minute at most."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from jupyter_hpc.errors import HpcError
from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.slurm.models import Usage
from jupyter_hpc.waiting import within

LIFETIME_SECONDS = 60.0

#: A node that is slow to answer must not keep a person from the rest of the job's view;
#: what comes later is shown at the next look.
WAIT_SECONDS = 2.0
MAX_JOBS_KEPT = 50


class RunningUsage:
    """Keeps the newest answer of each job; `ask` gives one for a plain job number."""

    def __init__(self, ask: Callable[[str], Awaitable[Usage | None]]) -> None:
        self._ask = ask
        self._known: OrderedDict[str, Cached[Usage | None]] = OrderedDict()

    async def of(self, job_id: str) -> Usage | None:
        """The usage; None where the site or the job has none, which is no error."""
        if job_id not in self._known:
            self._known[job_id] = Cached(
                lambda: self._ask(job_id), LIFETIME_SECONDS, floor=LIFETIME_SECONDS
            )
            while len(self._known) > MAX_JOBS_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(job_id)
        try:
            return (await within(self._known[job_id].get(), WAIT_SECONDS)).value
        except (HpcError, TimeoutError, asyncio.TimeoutError):
            return None

    async def stop(self) -> None:
        """End what is under way."""
        await asyncio.gather(*(cached.stop() for cached in self._known.values()))
