"""Checks that must hold on a real Slurm and on the embedded cluster alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.slurm.bench import Bench
from tests.slurm.checks import allocating, asking, changing, ending, inside, submitting

Check = Callable[[Bench], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    *asking.CHECKS,
    *allocating.CHECKS,
    *submitting.CHECKS,
    *changing.CHECKS,
    *inside.CHECKS,
    *ending.CHECKS,
)
