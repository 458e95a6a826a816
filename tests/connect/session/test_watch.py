"""What is said of the job while a session runs."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_hpc.connect.events import Event
from jupyter_hpc.connect.sentences import sentence
from jupyter_hpc.connect.session.watch import JobWatch, TimeLimitWarnings
from jupyter_hpc.errors import CommandTimeout
from jupyter_hpc.slurm.models import Job, Phase


def warned(looks: list[tuple[float, float]]) -> list[str]:
    """What is said when the end and the present are these, in minutes."""
    events: list[Event] = []
    warnings = TimeLimitWarnings(events.append)
    for ends, now in looks:
        warnings.look(ends * 60, now * 60)
    return [sentence(event) for event in events]


def test_warnings_are_given_again_after_an_extension() -> None:
    said = warned([(60, 0), (60, 31), (60, 51), (120, 52), (120, 91), (120, 111)])
    assert [text.split(".")[0] for text in said] == [
        "The job's time limit comes in 29 minutes",
        "The job's time limit comes in 9 minutes",
        "The job's time limit was extended: it ends in 68 min",
        "The job's time limit comes in 29 minutes",
        "The job's time limit comes in 9 minutes",
    ]


def test_a_shortened_limit_is_said_and_warned_of() -> None:
    said = warned([(120, 0), (20, 1)])
    assert [text.split(".")[0] for text in said] == [
        "The job's time limit was shortened: it ends in 19 min",
        "The job's time limit comes in 19 minutes",
    ]


def test_slurms_rounding_is_no_change() -> None:
    assert warned([(60, 0), (61, 1), (60, 2)]) == []


async def watched(answers: list[Any], cut: bool = False) -> list[str]:
    events: list[Event] = []

    async def ask(job_id: str) -> Job | None:
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch = JobWatch("7", 0.0, ask, lambda job: None, events.append, lambda: cut)
    await asyncio.wait_for(watch.run(), 30)
    return [sentence(event) for event in events]


def job(phase: Phase) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(phase=phase)


async def test_a_suspended_job_is_said_once_and_so_is_its_resumption() -> None:
    phases = [Phase.RUNNING, Phase.SUSPENDED, Phase.SUSPENDED, Phase.RUNNING]
    said = await watched([job(phase) for phase in phases])
    assert len(said) == 2 and "suspended job 7" in said[0] and "resumed" in said[1]


async def test_slurm_is_not_blamed_for_a_cut() -> None:
    late = CommandTimeout("squeue gave no answer within 30 s.")
    assert len(await watched([late, late])) == 1
    assert await watched([late, late], cut=True) == []
