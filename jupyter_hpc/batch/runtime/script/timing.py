"""`%time`, `%timeit` and `%%capture`."""

from __future__ import annotations

import io
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from jupyter_hpc.batch.runtime.display.display import CAPTURES, publish, show
from jupyter_hpc.batch.runtime.display.figures import flush_figures
from jupyter_hpc.batch.runtime.log import log


def _duration(seconds: float) -> str:
    if seconds >= 60:
        words = []
        left = int(seconds)
        for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
            count, left = divmod(left, length)
            if count:
                words.append(f"{count}{unit}")
        return " ".join(words)
    order = min(-int(math.floor(math.log10(seconds)) // 3), 3) if seconds > 0 else 3
    order = max(order, 0)
    return "{:.3g} {}".format(seconds * 1000**order, ("s", "ms", "µs", "ns")[order])


class timed:
    """Prints the time that its block takes; `result` is shown after it."""

    def __init__(self, quiet: bool = False) -> None:
        self.value: Any = None
        self.quiet = quiet

    def __enter__(self) -> timed:
        self.start, self.cpu = time.time(), os.times()
        return self

    def result(self, value: Any) -> Any:
        """The value of the last expression of the block."""
        self.value = value
        return value

    def __exit__(self, kind: Any, *_: Any) -> None:
        wall, cpu = time.time() - self.start, os.times()
        user, system = cpu.user - self.cpu.user, cpu.system - self.cpu.system
        line = "CPU times: user {}, sys: {}, total: {}"
        print(line.format(_duration(user), _duration(system), _duration(user + system)))
        print(f"Wall time: {_duration(wall)}")
        if kind is None and not self.quiet:
            show(self.value)


def time_call(action: Callable[[], Any]) -> Any:
    """`x = %time expression`."""
    with timed(quiet=True) as timing:
        timing.result(action())
    return timing.value


class TimeitResult:
    """What `%timeit -o` gives; in a batch job the code runs once."""

    def __init__(self, seconds: float) -> None:
        self.all_runs = self.timings = [seconds]
        self.best = self.worst = self.average = seconds
        self.stdev = self.compile_time = 0.0
        self.loops = self.repeat = 1

    def __str__(self) -> str:
        return f"{_duration(self.average)} (run once in a batch job)"

    __repr__ = __str__


def timeit_once(action: Callable[[], Any], quiet: bool = False) -> TimeitResult:
    """`%timeit`: run the code once and say how long it took."""
    start = time.perf_counter()
    action()
    result = TimeitResult(time.perf_counter() - start)
    if not quiet:
        print(result)
    return result


class Captured:
    """What a captured cell printed and displayed."""

    def __init__(self) -> None:
        self.stdout = self.stderr = ""
        self.forms: list[dict[str, Any]] = []

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return self.forms

    def show(self) -> None:
        """Print and display it now."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for forms in self.forms:
            publish(forms)

    __call__ = show

    def __str__(self) -> str:
        return self.stdout


class capture_output:
    """Keeps what its block prints and displays."""

    def __init__(self, stdout: bool = True, stderr: bool = True, display: bool = True) -> None:
        self.wanted = (stdout, stderr, display)
        self.saved: tuple[Any, Any] = (None, None)
        self.buffers: tuple[io.StringIO | None, io.StringIO | None] = (None, None)

    def __enter__(self) -> Captured:
        self.captured = Captured()
        sys.stdout.flush()
        sys.stderr.flush()
        self.saved = (sys.stdout, sys.stderr)
        self.buffers = (
            io.StringIO() if self.wanted[0] else None,
            io.StringIO() if self.wanted[1] else None,
        )
        sys.stdout = self.buffers[0] or sys.stdout
        sys.stderr = self.buffers[1] or sys.stderr
        if self.wanted[2]:
            CAPTURES.append(self.captured.forms)
        return self.captured

    def __exit__(self, kind: Any, *_: Any) -> None:
        flush_figures()
        if self.wanted[2]:
            CAPTURES.remove(self.captured.forms)
        sys.stdout, sys.stderr = self.saved
        if self.buffers[0] is not None:
            self.captured.stdout = self.buffers[0].getvalue()
        if self.buffers[1] is not None:
            self.captured.stderr = self.buffers[1].getvalue()
        if kind is not None:
            log("a captured cell failed; what it had printed follows")
            self.captured.show()


class capture_tools:
    """Stands for IPython.utils.io and IPython.utils.capture."""

    capture_output = capture_output
