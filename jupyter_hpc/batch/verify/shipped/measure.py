"""Runs a command for a limited time and measures it: time, memory, memory of the GPUs.

    python measure.py SECONDS LOG COMMAND…

Standard library only. What the command prints goes to the file LOG; on stdout is one JSON
object. Whatever the command has started and left is ended with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

_LOOK_SECONDS = 0.1
_GPU_SECONDS = 1.0
#: What a program may take to end when it is asked to.
_END_SECONDS = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ASK = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]


def processes(group: int) -> dict[int, int]:
    """Resident bytes of each process of a group, without this one."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group and int(name) != os.getpid():
            found[int(name)] = int(fields[21]) * _PAGE
    return found


def gpu_bytes(pids: Any) -> int:
    """What these processes hold on the GPUs."""
    try:
        done = subprocess.run(_ASK, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    total = 0
    for line in done.stdout.splitlines():
        pid, _, used = line.partition(",")
        if pid.strip().isdigit() and int(pid) in pids and used.strip().isdigit():
            total += int(used) * 2**20
    return total


def end_all(process: Any) -> None:
    """End the command and all of its group, politely first."""
    group = os.getpgrp()
    for number, seconds in ((signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, 1.0)):
        end = time.monotonic() + seconds
        for pid in processes(group):
            try:
                os.kill(pid, number)
            except OSError:
                continue
        while time.monotonic() < end:
            process.poll()
            if not processes(group):
                return
            time.sleep(0.02)


def measure(seconds: float, log: str, command: list[str]) -> dict[str, Any]:
    """Run it, and what it took."""
    if os.getpgrp() != os.getpid():
        os.setpgrp()  # whoever kills this kills all of it
    group = os.getpgrp()
    begun = time.monotonic()
    peak = gpu = 0
    asked = 0.0
    has_gpus = shutil.which("nvidia-smi") is not None
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while process.poll() is None and time.monotonic() - begun < seconds:
            held = processes(group)
            peak = max(peak, sum(held.values()))
            if has_gpus and time.monotonic() - asked > _GPU_SECONDS:
                asked = time.monotonic()
                gpu = max(gpu, gpu_bytes(held))
            time.sleep(_LOOK_SECONDS)
        over = process.poll() is None
        took = time.monotonic() - begun
    finally:
        end_all(process)
    code = None if over else process.returncode
    return {"code": code, "seconds": took, "bytes": peak, "gpu_bytes": gpu}


def main() -> None:
    """Also ends what it has started when it is ended itself."""

    def ended(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, ended)
    print(json.dumps(measure(float(sys.argv[1]), sys.argv[2], sys.argv[3:])))


if __name__ == "__main__":
    main()
