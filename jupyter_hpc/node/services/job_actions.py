"""An action on several jobs: each for itself, and what became of it in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from jupyter_hpc.errors import CommandMissing, CommandTimeout, HpcError, SlurmUnavailable

#: Does something to jobs, or raises why not.
Verb = Callable[[Sequence[str]], Awaitable[None]]

#: What says nothing about a job, but that there is nobody to ask.
_SILENCE = (SlurmUnavailable, CommandMissing, CommandTimeout)


@dataclass(frozen=True)
class Outcome:
    """What became of an action on one job."""

    id: str
    ok: bool
    message: str
    hint: str = ""


@dataclass(frozen=True)
class ActionResult:
    """What became of an action on one or several jobs, in one sentence and each."""

    message: str
    hint: str
    results: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether it worked for every job."""
        return all(outcome.ok for outcome in self.results)


async def attempt(action: str, verb: Verb, ids: Sequence[str]) -> list[Outcome]:
    """Do it to one job after the other.

    A refusal of a single job is raised as it is; among several it is one of the outcomes.
    A Slurm that does not answer for one job is not asked, and waited for, for the others.
    """
    if len(ids) == 1:
        await verb(ids)
        return [Outcome(ids[0], True, _done(action, ids[0]))]
    outcomes: list[Outcome] = []
    silence: HpcError | None = None
    for job_id in ids:
        try:
            if silence is not None:
                raise silence
            await verb([job_id])
        except HpcError as error:
            silence = error if isinstance(error, _SILENCE) else None
            outcomes.append(Outcome(job_id, False, error.message, error.hint))
        else:
            outcomes.append(Outcome(job_id, True, _done(action, job_id)))
    return outcomes


def summed_up(outcomes: Sequence[Outcome]) -> ActionResult:
    """All outcomes, and one sentence about them."""
    refused = [outcome for outcome in outcomes if not outcome.ok]
    if not refused:
        message = outcomes[0].message if len(outcomes) == 1 else f"Done for {len(outcomes)} jobs."
        return ActionResult(message, "", tuple(outcomes))
    return ActionResult(
        f"Slurm refused this for {len(refused)} of {len(outcomes)} jobs: {refused[0].message}",
        refused[0].hint,
        tuple(outcomes),
    )


def _done(action: str, job_id: str) -> str:
    """True also where Slurm takes a request in silence: scancel does for a job long gone."""
    return f"Slurm has been told to {action} job {job_id}."
