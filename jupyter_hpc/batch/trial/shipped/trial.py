"""Runs a notebook's script for a few epochs, once with one and once with more, and measures both.

    python trial.py PLAN.json

Standard library only, Python 3.9 or newer. Beside the plan are the script and what a job of it
has; each run works in a new folder below `output`, where this program also writes how far it is
(progress.json) and what came of it (trial.json). Whatever the runs have started is ended with
them. Where the plan says so, this ends with whoever holds the other end of its stdin.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

_LOOK_SECONDS = 0.1
_MAX_LOOK_SECONDS = 1.0
_TELL_SECONDS = 0.5
_GPU_SECONDS = 1.0
#: What a program may take to end when it is asked to.
_END_SECONDS = 5.0
#: So much of the end of a log is looked at.
_TAIL_BYTES = 8000
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ASK = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
_PR_SET_CHILD_SUBREAPER = 36
#: Where memory is short, the system ends the trial and neither Jupyter nor a kernel.
_RAISE = '{ echo 1000 > /proc/self/oom_score_adj; } 2> /dev/null; exec "$@"'
_FIRST_TO_GO = ["sh", "-c", _RAISE, "sh"]

#: Set when whoever asked for the trial is gone, or this program is told to end.
ENDED = threading.Event()


def descendants() -> list[int]:
    """All processes below this one; those whose parents have ended come to it (`adopt`)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    left = [os.getpid()]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def resident(pid: int) -> int:
    """Bytes of a process, with all that it shares with others."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def share_of(pid: int) -> int:
    """The same, where what several share counts once among them; a slow look."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return resident(pid)


def highest(pid: int) -> int:
    """The most that this one process has held, which may have been between two looks."""
    try:
        with open(f"/proc/{pid}/status") as file:
            found = re.search(r"^VmHWM:\s*(\d+)", file.read(), re.M)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


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


def tail(path: str) -> str:
    """The end of a log."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def write(path: str, value: Any) -> None:
    """The file appears whole; where there is no room for it, the older one stays."""
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(path + ".new", path)
    except OSError as error:
        sys.stderr.write(f"[jupyter-hpc] {path} could not be written: {error}\n")


def adopt() -> None:
    """Become the parent of every process below whose own parent has ended."""
    # Else what leaves its group and loses its parent is not found.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all(process: Any) -> None:
    """End the command and all that came of it, politely first."""
    for pid in descendants():
        _signal(pid, signal.SIGTERM)
    end = time.monotonic() + _END_SECONDS
    while descendants() and time.monotonic() < end + 1.0:
        process.poll()
        for pid in descendants() if time.monotonic() > end else ():
            _signal(pid, signal.SIGKILL)
        time.sleep(0.02)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


class Trial:
    """The runs of one plan, one after the other."""

    def __init__(self, plan: dict[str, Any], here: str) -> None:
        self.plan, self.here = plan, here
        self.output = os.path.join(here, "output")
        self.begun = time.monotonic()
        self.runs: list[dict[str, Any]] = []
        self.has_gpus = shutil.which("nvidia-smi") is not None

    def left(self) -> float:
        """Seconds that the trial still has."""
        return float(self.plan["seconds"]) - (time.monotonic() - self.begun)

    def run(self) -> dict[str, Any]:
        """What each run took, and why the last one is the last."""
        for number, wanted in enumerate(self.plan["runs"], 1):
            found = self.one(number, wanted)
            self.runs.append(found)
            if found["why"] or found["code"]:
                break
        return {"runs": self.runs}

    def one(self, number: int, wanted: dict[str, Any]) -> dict[str, Any]:
        """One run in a folder of its own."""
        output = os.path.join(self.output, str(number))
        log = os.path.join(output, "log")
        found = {"epochs": wanted["epochs"], "seconds": 0.0, "bytes": 0, "gpu_bytes": 0}
        self.tell(number, found, "")
        try:
            os.makedirs(os.path.join(output, "checkpoints"), exist_ok=True)
            values = os.path.join(output, "parameters.json")
            with open(values, "w", encoding="utf-8") as file:
                json.dump(wanted["parameters"], file)
            folder = self.folder(output)
            environment = {
                **os.environ,
                "JUPYTER_HPC_OUTPUT": output,
                "JUPYTER_HPC_CHECKPOINTS": os.path.join(output, "checkpoints"),
            }
            script = os.path.join(self.here, self.plan["script"])
            with open(log, "wb") as file:
                process = subprocess.Popen(
                    [*_FIRST_TO_GO, sys.executable, "-u", script, "--parameters", values],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env=environment,
                )
        except subprocess.TimeoutExpired:
            return {**found, "code": None, "why": "time", "log": "its folder was not made in time"}
        except (OSError, ValueError) as error:
            return {**found, "code": None, "why": "folder", "log": str(error)}
        return {**found, **self.measure(number, found, process, log), "log": tail(log)}

    def folder(self, output: str) -> str:
        """A new working folder, by the program that makes those of jobs."""
        made = [os.path.join(self.here, name) for name in ("jupyter_hpc_job.py", "folder.json")]
        done = subprocess.run(
            [sys.executable, made[0], "isolate", made[1], output],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=max(1.0, self.left()),
        )
        if done.returncode:
            raise ValueError(done.stderr.strip()[-1000:])
        return done.stdout.strip("\n")

    def measure(self, number: int, found: dict[str, Any], process: Any, log: str) -> dict[str, Any]:
        """Look at the run until it ends, or has to."""
        begun = time.monotonic()
        peak = gpu = 0
        asked = told = 0.0
        why = ""
        most = self.plan.get("memory")
        try:
            while process.poll() is None:
                looked = time.monotonic()
                pids = descendants()
                held = sum(map(resident, pids))
                if held > peak or (most is not None and held > most):
                    held = sum(map(share_of, pids))
                peak = max(peak, held, *map(highest, pids)) if pids else peak
                if self.has_gpus and looked - asked > _GPU_SECONDS:
                    asked = looked
                    gpu = max(gpu, gpu_bytes(pids))
                found.update(seconds=looked - begun, bytes=peak, gpu_bytes=gpu)
                if looked - told > _TELL_SECONDS:
                    told = looked
                    self.tell(number, found, tail(log))
                if most is not None and held > most:
                    why = "memory"
                elif self.left() <= 0:
                    why = "time"
                elif ENDED.is_set():
                    why = "ended"
                if why:
                    break
                # To look at large processes takes a moment, and the moments are not to add up.
                took = time.monotonic() - looked
                pause = min(_MAX_LOOK_SECONDS, max(_LOOK_SECONDS, 10 * took))
                while time.monotonic() < looked + took + pause and process.poll() is None:
                    if ENDED.wait(_LOOK_SECONDS / 2):
                        break
            took = time.monotonic() - begun
            self.tell(number, {**found, "seconds": took}, tail(log))
            code = process.poll() if not why else None
        finally:
            end_all(process)
        return {"code": code, "why": why, "seconds": took, "bytes": peak, "gpu_bytes": gpu}

    def tell(self, number: int, found: dict[str, Any], log: str) -> None:
        """How far it is, for whoever looks."""
        numbers = re.findall(self.plan["epoch"], log, re.IGNORECASE)
        lines = [line for line in re.split(r"[\r\n]+", log) if line.strip()]
        write(
            os.path.join(self.output, "progress.json"),
            {
                **found,
                "run": number,
                "runs": len(self.plan["runs"]),
                "elapsed": time.monotonic() - self.begun,
                "epoch": int(numbers[-1]) if numbers else None,
                "line": lines[-1][:200] if lines else "",
            },
        )


def watch() -> None:
    """Whoever asked holds the other end; it closes with them, however they end."""
    while os.read(0, 1024):
        pass
    ENDED.set()


def locked(path: str) -> Any:
    """The file that only one trial holds at a time; None if another one does."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        file = open(path, "w")  # noqa: SIM115  # held until this program ends, whatever ends it
    except OSError:
        return True  # no place for it is no reason not to run
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return True  # not every file server has locks
    return file


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    here = os.path.dirname(os.path.abspath(sys.argv[1]))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: ENDED.set())
    if plan.get("watched"):
        threading.Thread(target=watch, daemon=True).start()
    adopt()
    result: dict[str, Any] = {"runs": [], "busy": True}
    held = locked(plan["lock"]) if plan.get("lock") else True
    try:
        if held is not None:
            result = Trial(plan, here).run()
        write(os.path.join(here, "output", "trial.json"), result)
    finally:
        if plan.get("lock") and held is not None and held is not True:
            os.unlink(plan["lock"])
        if plan.get("watched") and ENDED.is_set():  # nobody is left to tidy up
            shutil.rmtree(here, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
