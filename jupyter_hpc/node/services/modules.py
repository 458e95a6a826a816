"""The modules of the cluster, for the dialog that asks which ones a job needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_hpc.batch.preflight.modules import available_modules
from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.node.values import problem_of

if TYPE_CHECKING:
    from jupyter_hpc.runner import Runner

#: New ones are installed once in a while.
LIFETIME_SECONDS = 3600.0


class ModuleService:
    """Asked once an hour at most, and only when somebody goes into the field."""

    def __init__(self, runner: Runner, *, login_shell: bool = False) -> None:
        self._runner = runner
        self._login_shell = login_shell
        self._modules: Cached[tuple[str, ...]] = Cached(self._fetch, LIFETIME_SECONDS, floor=60.0)

    async def read(self) -> dict[str, object]:
        """The names and their age."""
        dated = await self._modules.get()
        return {
            "modules": dated.value,
            "taken_at": dated.taken_at,
            "age": max(0.0, time.time() - dated.taken_at),
            "problem": problem_of(dated.problem),
        }

    async def _fetch(self) -> tuple[str, ...]:
        return await available_modules(self._runner, login_shell=self._login_shell)

    async def stop(self) -> None:
        """End what is under way."""
        await self._modules.stop()
