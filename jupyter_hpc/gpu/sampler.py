"""One thread that takes GPU samples, so that a slow driver never stops anything else.

A call into a broken driver may never return. The thread is therefore a daemon that
is never waited for beyond a moment: the data is stale, the rest of the server works,
and it still stops when it is told to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.errors import GpuUnavailable, HpcError
from jupyter_hpc.gpu.history import History
from jupyter_hpc.gpu.sample import GpuSource, Sample

#: Without a new sample for so long the data is called stale.
STALE_SECONDS = 4.0

#: A source that could not be opened, or failed, is tried again after so long.
RETRY_SECONDS = 30.0


def silent_driver(seconds: float) -> GpuUnavailable:
    """The error of a call that does not return."""
    return GpuUnavailable(
        f"The GPU driver has not answered for {seconds:.0f} s.",
        "Work on the CPU goes on. If it stays so, save your work and start the session "
        "on another node; tell the site's support which node this was.",
    )


@dataclass(frozen=True)
class Origin:
    """Which source the samples come from, and its driver's version."""

    label: str
    driver: str | None


class GpuSampler:
    """Takes a sample each `interval` seconds from the source that `open_source` makes."""

    def __init__(
        self,
        open_source: Callable[[], GpuSource],
        interval: float = 1.0,
        on_sample: Callable[[], None] = lambda: None,
    ) -> None:
        self.interval = interval
        self.history = History(interval)
        self._open_source = open_source
        self._on_sample = on_sample
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._source: GpuSource | None = None
        self._origin: Origin | None = None
        self._sample: Sample | None = None
        self._failure: HpcError | None = None
        self._asked_at = time.monotonic()
        self._answered = True

    def start(self) -> None:
        """Start the thread; does nothing when it runs already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hpc-gpus", daemon=True)
            self._asked_at = time.monotonic()
            self._answered = False
            self._thread.start()

    def stop(self, patience: float = 1.0) -> None:
        """Ask the thread to end and wait a moment; one that hangs is left behind."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(patience)

    @property
    def origin(self) -> Origin | None:
        """Where the samples come from, once there was one; stays after a failure."""
        return self._origin

    @property
    def sample(self) -> Sample | None:
        """The newest sample."""
        return self._sample

    @property
    def failure(self) -> HpcError | None:
        """Why there is no new sample: the source failed, or a call does not return."""
        silent = time.monotonic() - self._asked_at
        if not self._answered and silent > STALE_SECONDS:
            return silent_driver(silent)
        return self._failure

    def _run(self) -> None:
        while not self._stop.is_set():
            self._asked_at, self._answered = time.monotonic(), False
            pause = self._attempt()
            self._answered = True
            self._on_sample()
            self._stop.wait(max(0.0, self._asked_at + pause - time.monotonic()))
        self._close()

    def _attempt(self) -> float:
        """Take one sample; returns after how many seconds the next is due."""
        try:
            if self._source is None:
                self._source = self._open_source()
            sample = self._source.read()
        except GpuUnavailable as error:
            self._failure = error
            self._close()
            return RETRY_SECONDS
        except Exception as error:
            # A binding that breaks in an unknown way must not end the thread in silence.
            self._failure = GpuUnavailable(
                f"Reading the GPUs failed: {type(error).__name__}: {error}.",
                "It is tried again every half minute.",
            )
            self._close()
            return RETRY_SECONDS
        if self._origin is None:
            self._origin = Origin(self._source.label, self._source.driver)
        self.history.append(sample)
        self._sample = sample
        self._failure = None
        return self.interval

    def _close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()
