"""The GPUs of this job: the newest sample, its history, and who holds the memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

from jupyter_hpc.errors import GpuUnavailable, HpcError, NoGpu, UsageError
from jupyter_hpc.gpu.history import COARSE_SECONDS, HistoryView
from jupyter_hpc.gpu.sample import GpuReading, GpuSource, Sample
from jupyter_hpc.gpu.sampler import GpuSampler
from jupyter_hpc.node.services.notebooks import Notebooks, Owner
from jupyter_hpc.node.services.signal import Signal
from jupyter_hpc.node.values import problem_of

#: The first request waits so long for the first sample.
FIRST_SAMPLE_SECONDS = 3.0

MAX_POINTS = 5000


class GpuService:
    """Starts the sampler when somebody looks first, then keeps it: history needs it."""

    def __init__(
        self,
        open_source: Callable[[], GpuSource],
        interval: float,
        notebooks: Notebooks,
        *,
        enabled: bool = True,
    ) -> None:
        self._open_source = open_source
        self._interval = interval
        self._notebooks = notebooks
        self._enabled = enabled
        self._sampler: GpuSampler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Rings after each attempt to take a sample.
        self.sampled = Signal()

    def start(self) -> GpuSampler:
        """Start sampling; does nothing when it runs already."""
        if not self._enabled:
            raise GpuUnavailable("This site has switched off the GPU panel.", "")
        if self._sampler is None:
            self._loop = asyncio.get_running_loop()
            self._sampler = GpuSampler(self._open_source, self._interval, self._tell_loop)
            self._sampler.start()
        return self._sampler

    async def read(self) -> dict[str, object]:
        """The newest sample; raises the reason when there has never been one.

        That there is no GPU here is an answer with a `problem` and without GPUs.
        """
        sampler = self.start()
        if sampler.sample is None and sampler.failure is None:
            await self.sampled.wait(FIRST_SAMPLE_SECONDS)
        sample, failure = sampler.sample, sampler.failure
        if sample is None and isinstance(failure, NoGpu):
            sample = Sample(time.time(), ())
        if sample is None:
            raise failure or GpuUnavailable(
                "The GPU driver is slow to answer the first question.", "Wait a moment."
            )
        return await self._describe(sampler, sample, failure)

    async def history(self, seconds: float, points: int) -> dict[str, object]:
        """The last `seconds` in at most `points` rows."""
        if not 0 < seconds <= COARSE_SECONDS:
            raise UsageError("There is no such span of history.", "Ask for 1 to 43200 seconds.")
        check_points(points)
        current = await self.read()  # starts the sampler, or says why there is nothing
        sampler = self.start()
        view = await asyncio.to_thread(sampler.history.view, seconds, points, time.time())
        return described_history(
            view, str(current["source"]), bool(current["simulated"]), sampler.sample
        )

    def _tell_loop(self) -> None:
        """Called in the sampler's thread after each attempt."""
        if self._loop is None or self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(self.sampled.ring)
        except RuntimeError:
            return  # the loop was closed in this moment

    async def _describe(
        self, sampler: GpuSampler, sample: Sample, failure: HpcError | None
    ) -> dict[str, object]:
        origin = sampler.origin
        pids = {process.pid for gpu in sample.gpus for process in gpu.processes}
        owners = await self._notebooks.owners(pids) if pids else {}
        return describe_sample(
            sample,
            origin.label if origin else "none",
            origin.driver if origin else None,
            failure,
            self._interval,
            owners,
            sampler.history.idle_since,
        )

    async def stop(self) -> None:
        """End the sampler; one that hangs in the driver is left behind."""
        if self._sampler is not None:
            sampler, self._sampler = self._sampler, None
            await asyncio.to_thread(sampler.stop)


def check_points(points: int) -> None:
    """UsageError for a number of points that no chart can want."""
    if not 2 <= points <= MAX_POINTS:
        raise UsageError("That number of points is not possible.", f"Ask for 2 to {MAX_POINTS}.")


def described_history(
    view: HistoryView, source: str, simulated: bool, sample: Sample | None
) -> dict[str, object]:
    """The JSON form of a piece of history."""
    return {
        "source": source,
        "simulated": simulated,
        "taken_at": sample.taken_at if sample else (view.times[-1] if view.times else None),
        "times": view.times,
        "gpus": [asdict(gpu) for gpu in view.gpus],
    }


def describe_sample(
    sample: Sample,
    source: str,
    driver: str | None,
    failure: HpcError | None,
    interval: float,
    owners: Mapping[int, Owner],
    idle_since: Callable[[str], float | None],
) -> dict[str, object]:
    """The JSON form of a sample; `failure` is why there is no newer one."""
    return {
        "source": source,
        "simulated": source == "simulated",
        "driver": driver,
        "taken_at": sample.taken_at,
        "age": max(0.0, time.time() - sample.taken_at),
        "stale": failure is not None and bool(sample.gpus),
        "problem": problem_of(failure),
        "interval": interval,
        "gpus": [_described(gpu, owners, idle_since(gpu.id)) for gpu in sample.gpus],
    }


def _described(
    gpu: GpuReading, owners: Mapping[int, Owner], idle_since: float | None
) -> dict[str, object]:
    row = asdict(gpu)
    row.pop("failure")
    row["problem"] = {"message": gpu.failure, "hint": ""} if gpu.failure else None
    row["idle_since"] = idle_since
    row["processes"] = [
        {
            "pid": process.pid,
            "name": owners[process.pid].name,
            "memory": process.memory,
            "notebook": owners[process.pid].notebook,
        }
        for process in gpu.processes
    ]
    return row
