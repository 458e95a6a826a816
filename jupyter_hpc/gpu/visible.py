"""Which GPUs of a machine belong to this job, from the words in its environment.

CUDA's rules for CUDA_VISIBLE_DEVICES: numbers or UUIDs (a unique beginning is
enough) separated by commas; the first entry that names no device hides itself and
everything after it. The scheduler writes "NoDevFiles" into a job without GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.errors import NoGpu

_NO_DEVICE = frozenset({"", "-1", "nodevfiles", "none", "void"})


@dataclass(frozen=True)
class Wanted:
    """The devices to show: every one, or those that the entries name, in that order."""

    everything: bool
    entries: tuple[str, ...] = ()


def no_gpu_in_job() -> NoGpu:
    """The error of a job that did not ask for a GPU."""
    return NoGpu(
        "This job has no GPU.",
        "Start the session with one, for instance with --gpus 1 or a preset that has GPUs.",
    )


def wanted_devices(
    environ: Mapping[str, str],
    variables: tuple[str, ...],
    *,
    allocated: str | None = None,
    in_job: bool = False,
) -> Wanted:
    """Read which devices to show.

    The first of `variables` that is set decides. Otherwise `allocated`, the list that
    the scheduler gave this job. In a job for which neither is known there is no GPU;
    outside a job every GPU of the machine is shown. Raises NoGpu when the
    environment says that there is none.
    """
    for variable in variables:
        if variable in environ:
            return _entries(environ[variable])
    if allocated is not None:
        return _entries(allocated)
    if in_job:
        raise no_gpu_in_job()
    return Wanted(everything=True)


def _entries(text: str) -> Wanted:
    entries: list[str] = []
    for entry in text.split(","):
        entry = entry.strip()
        if entry.lower() in _NO_DEVICE or entry.startswith("-"):
            break
        entries.append(entry)
    if not entries:
        raise no_gpu_in_job()
    return Wanted(everything=False, entries=tuple(entries))
