"""The sampler's thread: steady, honest about silence, and never in the way of the end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu import sampler as sampler_module
from jupyter_hpc.gpu.nvml import NvmlSource
from jupyter_hpc.gpu.sample import GpuReading, GpuSource, Sample
from jupyter_hpc.gpu.sampler import GpuSampler
from jupyter_hpc.gpu.visible import Wanted
from tests.gpu.conftest import SetUp
from tests.waiting import eventually


class Steady:
    """A source that always answers, or raises what it is given."""

    label = "nvml"
    driver: str | None = "1"

    def __init__(self) -> None:
        self.reads = 0
        self.closed = 0
        self.error: Exception | None = None

    def read(self) -> Sample:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return Sample(time.time(), (GpuReading(id="g", index=0, name="x", load=1.0),))

    def close(self) -> None:
        self.closed += 1


def nvml_source() -> GpuSource:
    source = NvmlSource(Wanted(everything=True))
    source.open()
    return source


def test_samples_arrive_and_are_kept() -> None:
    source = Steady()
    sampler = GpuSampler(lambda: source, interval=0.02)
    sampler.start()
    eventually(lambda: source.reads >= 5)
    sampler.stop(patience=60)
    assert sampler.failure is None
    assert sampler.sample is not None
    assert len(sampler.history.view(60, 600, time.time()).times) >= 4
    assert source.closed == 1


def test_everybody_is_told_after_each_sample() -> None:
    rings: list[str] = []
    sampler = GpuSampler(
        Steady, interval=0.02, on_sample=lambda: rings.append(threading.current_thread().name)
    )
    sampler.start()
    eventually(lambda: len(rings) >= 3)
    sampler.stop()
    assert set(rings) == {"hpc-gpus"}


def test_no_source_is_a_sentence_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "RETRY_SECONDS", 0.05)
    attempts: list[int] = []
    appeared = threading.Event()

    def open_source() -> GpuSource:
        attempts.append(1)
        if not appeared.is_set():
            raise GpuUnavailable("This job has no GPU.")
        return Steady()

    sampler = GpuSampler(open_source, interval=0.02)
    sampler.start()
    eventually(lambda: len(attempts) > 2)
    assert sampler.failure is not None and sampler.failure.message == "This job has no GPU."
    appeared.set()
    eventually(lambda: sampler.sample is not None)
    eventually(lambda: sampler.failure is None)
    sampler.stop()


def test_an_unknown_fault_of_the_binding_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler_module, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(sampler_module, "STALE_SECONDS", 60.0)
    source = Steady()
    sampler = GpuSampler(lambda: source, interval=0.02)
    sampler.start()
    eventually(lambda: source.reads > 2)
    source.error = AttributeError("no such symbol")
    eventually(lambda: sampler.failure is not None)
    assert "AttributeError: no such symbol" in str(sampler.failure)
    source.error = None
    eventually(lambda: sampler.failure is None)
    sampler.stop()


def test_a_call_that_hangs_is_told_within_five_seconds_and_stop_does_not_wait(
    nvml: SetUp, tmp_path: Path
) -> None:
    plug = tmp_path / "hang"
    nvml(hang="nvmlDeviceGetUtilizationRates", hang_while=plug)
    sampler = GpuSampler(nvml_source, interval=0.1)
    sampler.start()
    eventually(lambda: sampler.sample is not None)
    plug.touch()
    began = time.monotonic()
    eventually(lambda: sampler.failure is not None)
    assert sampler_module.STALE_SECONDS < 5
    assert time.monotonic() - began < 20
    assert "has not answered for" in str(sampler.failure)
    assert sampler.sample is not None, "the last data stays"
    began = time.monotonic()
    sampler.stop()
    assert time.monotonic() - began < 20
    plug.unlink()  # lets the thread end


def test_a_library_that_hangs_at_the_start_is_told_too(
    nvml: SetUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_module, "STALE_SECONDS", 0.2)
    plug = tmp_path / "hang"
    plug.touch()
    nvml(hang="nvmlInitWithFlags", hang_while=plug)
    sampler = GpuSampler(nvml_source, interval=0.1)
    sampler.start()
    eventually(lambda: sampler.failure is not None)
    assert sampler.sample is None
    plug.unlink()
    eventually(lambda: sampler.failure is None and sampler.sample is not None)
    sampler.stop()
