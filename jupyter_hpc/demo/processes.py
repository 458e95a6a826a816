"""Finding and ending the processes of one embedded cluster.

Every process that the cluster starts carries a marker in its environment, and
what it starts inherits it: that is how a kernel in a session of its own is still
known to belong to a job. Where the reaper adopts orphans (Linux), the tree below
it is searched as well, so that a process with a cleared environment cannot stay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

import psutil

#: Names the cluster that a process belongs to; unique for each start of a cluster.
CLUSTER_VARIABLE = "JUPYTER_HPC_DEMO_ID"
#: Names the job step that a process belongs to, as "CLUSTER:JOB.STEP".
STEP_VARIABLE = "JUPYTER_HPC_DEMO_STEP"


def environment_of(process: psutil.Process) -> dict[str, str]:
    """The environment the process was started with; empty if it may not be read."""
    try:
        return process.environ()
    except (psutil.Error, OSError, SystemError):
        return {}


def of_cluster(marker: str, root: int | None = None) -> list[psutil.Process]:
    """All live processes of the cluster: by marker, and by descent from `root`."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if environment_of(process).get(CLUSTER_VARIABLE) == marker:
            found[process.pid] = process
    if root is not None:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(root).children(recursive=True):
                found.setdefault(child.pid, child)
    for spared in (os.getpid(), root):
        found.pop(spared or 0, None)
    return [process for process in found.values() if alive(process)]


def of_step(step: str) -> list[psutil.Process]:
    """All live processes whose environment names `step` ("CLUSTER:JOB.STEP").

    A name that ends with a dot, "CLUSTER:JOB.", stands for all steps of the job.
    """
    whole_job = step.endswith(".")
    found = []
    for process in psutil.process_iter():
        value = environment_of(process).get(STEP_VARIABLE, "")
        if (value.startswith(step) if whole_job else value == step) and alive(process):
            found.append(process)
    return found


def alive(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie that waits for its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def send(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to each; psutil checks that the pid was not reused."""
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            process.send_signal(number)


def signal_step(step: str, number: int) -> None:
    """Send a signal to all processes of the step, or of the job."""
    send(of_step(step), number)


def kill_step(step: str, deadline: float = 5.0) -> None:
    """Kill all processes of the step, again until none is left or the time is over."""
    end = time.monotonic() + deadline
    while (left := of_step(step)) and time.monotonic() < end:
        send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)


def end_all(marker: str, root: int | None = None, grace: float = 1.0) -> None:
    """Terminate all processes of the cluster, then kill what is still there."""
    left = of_cluster(marker, root)
    send(left, signal.SIGTERM)
    send(left, signal.SIGCONT)
    _, left = psutil.wait_procs(left, timeout=grace)
    end = time.monotonic() + 5.0
    while left and time.monotonic() < end:
        send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.3)
        left = of_cluster(marker, root)
