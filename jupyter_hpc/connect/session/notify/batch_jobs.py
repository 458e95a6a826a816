"""Batch jobs whose end the user wants to be told of, submitted from wherever.

`submit --notify` leaves a note on the cluster, under the job's id, that names its run folder;
in that folder lies `notify.json`. Whoever removes that file tells: this laptop, another one,
or the job itself where no laptop is connected.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.batch.runs.endings import left_by
from jupyter_hpc.batch.runtime.job.notify import LEASE_FILE, NOTIFY_FILE
from jupyter_hpc.connect.session.notify.sending import Message
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase
from jupyter_hpc.slurm.reasons import HELD_BY_USER

_log = logging.getLogger(__name__)

#: One look: say that a laptop is here, then list what is watched and not yet told.
_LIST = f"""
umask 077
folder="${{XDG_STATE_HOME:-$HOME/.local/state}}/jupyter-hpc/watched"
mkdir -p -- "$folder" && cd -- "$folder" && touch {LEASE_FILE} || exit 0
for note in [0-9]*; do
    [ -f "$note" ] || continue
    {{ IFS= read -r run; IFS= read -r notebook; }} < "$note"
    if [ -f "$run/{NOTIFY_FILE}" ]; then
        printf '%s\\t%s\\t%s\\n' "$note" "$notebook" "$run"
    else
        rm -f -- "$note"
    fi
done
"""

#: Exit 0: it was ours to remove, so it is ours to tell.
_CLAIM = f'rm -- "$1/{NOTIFY_FILE}"'


@dataclass(frozen=True)
class WatchedJob:
    """A job whose end is to be told."""

    job_id: str
    notebook: str
    run: str


class BatchJobWatch:
    """Looks at the site's pace; asks Slurm only while there is something to wait for."""

    def __init__(
        self, runner: Runner, poll_seconds: float, tell: Callable[[Message], None]
    ) -> None:
        self._runner = runner
        self._slurm = SlurmClient(runner)
        self._poll_seconds = poll_seconds
        self._tell = tell
        #: Jobs of which it was told that they wait for a person.
        self._held: set[str] = set()

    async def run(self) -> None:
        """Look until cancelled; what does not answer is asked again later."""
        while True:
            try:
                await self.look()
            except HpcError as error:
                _log.info("the ends of batch jobs could not be looked for: %s", error.message)
            await asyncio.sleep(self._poll_seconds)

    async def look(self) -> None:
        """Tell of every watched job that is over."""
        watched = await self._watched()
        if not watched:
            return
        rows = await self._slurm.recent_jobs()
        for job in watched:
            own = [row for row in rows if job.job_id in (row.array_id, row.job_id)]
            if all(row.phase is Phase.ENDED for row in own):
                await self._tell_once(job, own)
            elif all(row.reason == HELD_BY_USER for row in own if row.phase is not Phase.ENDED):
                await self._tell_hold(job, own)
            else:
                self._held.discard(job.job_id)

    async def _tell_hold(self, job: WatchedJob, rows: list[Job]) -> None:
        """Tell of a job that got nowhere and waits for a person, once until it goes on."""
        if job.job_id in self._held:
            return
        waiting = [row.id.partition("_[")[0] for row in rows if row.phase is not Phase.ENDED]
        left = [each for each in (await left_by(self._runner, waiting)).values() if each.held]
        if left:
            self._held.add(job.job_id)
            text = f"{job.notebook}: {left[0].rest}"
            self._tell(Message("job-held", f"Job {job.job_id} is held", text, job.job_id))

    async def _watched(self) -> list[WatchedJob]:
        listed = await self._runner.run(["sh", "-c", _LIST])
        rows = (line.split("\t", 2) for line in listed.stdout.splitlines())
        return [WatchedJob(*row) for row in rows if len(row) == 3 and row[0].isdigit()]

    async def _tell_once(self, job: WatchedJob, rows: list[Job]) -> None:
        states = await self._states(job, rows)
        claimed = await self._runner.run(["sh", "-c", _CLAIM, "sh", job.run])
        if claimed.ok:
            self._tell(_message(job, states))

    async def _states(self, job: WatchedJob, rows: list[Job]) -> list[str]:
        """How it ended, once for each of its runs; accounting knows it for longer."""
        if rows:
            return [row.state for row in rows]
        try:
            found = await self._slurm.finished([job.job_id], steps=False)
        except HpcError:
            return []  # a site without accounting
        return [row.state for row in found]


def _message(job: WatchedJob, states: list[str]) -> Message:
    counted = Counter(state.split()[0].split("+")[0] for state in states if state)
    well = counted["COMPLETED"]
    if not counted:
        title, text = "has ended", "how is not known any more."
    elif well == len(states):
        title, text = "is done", "It ended well."
    else:
        title = "failed"
        text = (
            ", ".join(
                f"{count} {state}" if len(states) > 1 else f"Slurm says {state}"
                for state, count in counted.items()
            )
            + "."
        )
    return Message("job-ended", f"Job {job.job_id} {title}", f"{job.notebook}: {text}", job.job_id)
