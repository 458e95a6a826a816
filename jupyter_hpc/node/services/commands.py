"""How commands reach Slurm on this site: a prefix, and programs off the PATH."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, Runner, prefixed

#: So many commands run at once, others wait: a tab that asks for hundreds of jobs, or a
#: controller that hangs, must not fill the node with processes and Slurm with questions.
MAX_COMMANDS = 8


class SiteRunner:
    """Runs commands as the administrator has set it up, through another runner."""

    def __init__(
        self, runner: Runner, prefix: Sequence[str] = (), paths: Mapping[str, str] | None = None
    ) -> None:
        self._runner = runner
        self._prefix = list(prefix)
        self._paths = dict(paths or {})
        self._room = asyncio.Semaphore(MAX_COMMANDS)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv`; the result names the command as it was asked for."""
        async with self._room:
            done = await self._runner.run(self.rewritten(argv), stdin=stdin, timeout=timeout)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def rewritten(self, argv: Sequence[str]) -> list[str]:
        """The command that is really started."""
        words = list(argv)
        for position, word in enumerate(words):
            if word in self._paths:  # behind env(1) and its settings, if those are used
                words[position] = self._paths[word]
                break
        return prefixed(self._prefix, words)
