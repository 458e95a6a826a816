"""What an srun says while its step runs and ends, and what signals do to it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping

from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import CANCELLED, Step
from jupyter_hpc.demo.slurm.steps import send_to_step
from jupyter_hpc.demo.slurm.units import fold_numbers

ABORTED = "Job step aborted: Waiting up to 7 seconds for job step to finish."
#: Seconds within which a second interrupt ends the step.
INTERRUPT_TWICE_SECONDS = 1.0


class StepWatch:
    """Follows one step for the srun that started it."""

    def __init__(self, call: Call, controller: Controller, step: Step) -> None:
        self._call = call
        self._controller = controller
        self._step = step
        self._aborted = False
        self._interrupted = 0.0
        step.listeners.append(self._about_to_end)
        self._signals = asyncio.create_task(self._take_signals())

    def stop(self) -> None:
        self._signals.cancel()

    def _about_to_end(self, line: str) -> None:
        if not self._aborted:
            self._call.say(ABORTED)
        self._aborted = True
        self._call.err(line)

    async def _take_signals(self) -> None:
        """User signals are passed on; an interrupt asks for a second one; the rest ends it."""
        while True:
            number = await self._call.signals.get()
            if number in (signal.SIGUSR1, signal.SIGUSR2):
                send_to_step(self._step, number)
                continue
            if (
                number == signal.SIGINT
                and time.monotonic() - self._interrupted > INTERRUPT_TWICE_SECONDS
            ):
                self._interrupted = time.monotonic()
                self._call.say("interrupt (one more within 1 sec to abort)")
                tasks = fold_numbers(list(range(self._step.tasks)))
                word = "task" if self._step.tasks == 1 else "tasks"
                self._call.say(f"StepId={self._step.full_id} {word} {tasks}: running")
                continue
            if number == signal.SIGINT:
                self._call.say(f"sending Ctrl-C to StepId={self._step.full_id}")
                self._step.ends_as = f"{CANCELLED} by {self._controller.inventory.uid}"
                send_to_step(self._step, signal.SIGINT)
            self._call.say("forcing job termination")
            if number == signal.SIGINT:
                self._aborted = True
                self._call.say(ABORTED)
                await asyncio.sleep(0.2)
            self._controller.cancel_step(self._step)

    def report(self, codes: Mapping[int, int], *, quiet: bool) -> None:
        """Say which tasks did not end well."""
        by_code: dict[int, list[int]] = {}
        for task, code in sorted(codes.items()):
            if code and not quiet:
                by_code.setdefault(code, []).append(task)
        for code, tasks in by_code.items():
            word = "task" if len(tasks) == 1 else "tasks"
            how = f"Exited with exit code {code}" if code > 0 else signal.strsignal(-code)
            self._call.say(f"error: {self._step.nodes[0]}: {word} {fold_numbers(tasks)}: {how}")
        if -signal.SIGKILL in by_code and not self._aborted:
            self._call.say(f"Force Terminated StepId={self._step.full_id}")
