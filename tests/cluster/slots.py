"""Which cluster number is free, and the removal of everything a cluster ever made.

A slot belongs to the process that holds the lock on its file. The kernel drops
the lock when that process dies, however it dies; whoever takes the slot next
sweeps it first. A cluster that outlives its process has inherited the lock.
`Cluster.down` uses the same sweep, so there is one list of things that can be
left over, and one way to remove them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.layout import BASE, SLOTS, Slot

CGROUP_ROOT = Path("/sys/fs/cgroup")


class NoSlot(RuntimeError):
    """Every slot is taken by a living process or by a real network of this machine."""


class InUse(RuntimeError):
    """The slot belongs to another living process, which is named, and was not touched."""


def take(patience: float = 60) -> tuple[Slot, int]:
    """The first free slot, swept, and the descriptor that holds its lock; waits for one."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        for slot in map(Slot, range(SLOTS)):
            lock = try_lock(slot)
            if lock is None:
                continue
            sweep(slot)
            if not _routes(slot):
                return slot, lock
            os.close(lock)
        time.sleep(0.5)
    raise NoSlot(f"all {SLOTS} test clusters of this machine are in use")


def try_lock(slot: Slot) -> int | None:
    """A descriptor that holds the slot's lock until it is closed; None if another one does."""
    BASE.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = os.open(slot.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def owner(slot: Slot) -> int | None:
    """The living process that took the slot's lock; None if nobody has it, or only an heir."""
    inode = f":{slot.lock.stat().st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        # "7: FLOCK  ADVISORY  WRITE 4674 fe:00:2146628 0 EOF"; a waiting one has "->" after "7:".
        words = line.split()
        if words[1] == "FLOCK" and words[5].endswith(inode) and _has_open(int(words[4]), slot.lock):
            return int(words[4])
    return None


def _has_open(pid: int, file: Path) -> bool:
    """Whether the process lives and has this file open; its number may be another's by now."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(descriptor) == str(file):
                    return True
    return False


def remove(slot: Slot, patience: float = 60) -> None:
    """Sweep the slot of a cluster that outlived its process, under the slot's lock."""
    lock = _take_over(slot, patience)
    try:
        sweep(slot)
    finally:
        os.close(lock)


def _take_over(slot: Slot, patience: float) -> int:
    """The lock of a slot whose cluster ends for it; `InUse` if another process has it."""
    deadline = time.monotonic() + patience
    while (lock := try_lock(slot)) is None:
        # In this order: what lived before nobody owned the slot has no owner.
        living, pid = _living(slot), owner(slot)
        if pid is not None:
            raise InUse(
                f"cluster {slot.number} is in use by process {pid} ({_command(pid)}) "
                "and is left alone"
            )
        if time.monotonic() > deadline:
            raise InUse(
                f"cluster {slot.number} is in use by a process that cannot be seen from here "
                "and is left alone"
            )
        _kill(living)
        time.sleep(0.01)
    return lock


def _command(pid: int, most: int = 80) -> str:
    """The command line of a process, as far as it helps to recognise it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return "which is gone by now"
    line = " ".join(words).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def start_time(pid: int) -> int | None:
    """The kernel's start time of a process: with the pid it names it for ever."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = status.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def record_process(slot: Slot, pid: int) -> None:
    """Note a process as ours, so that a later sweep may end it and no other."""
    with open(slot.folder / "processes", "a", encoding="ascii") as record:
        record.write(f"{pid} {start_time(pid)}\n")


def sweep(slot: Slot) -> None:
    """Remove every trace of the slot's cluster; calling it twice does no harm."""
    _end_processes(slot)
    # Usually gone already: the kernel removes a cable with either of its ends.
    subprocess.run(["ip", "link", "del", slot.laptop_link], capture_output=True, check=False)
    for route in _routes(slot):
        if route.startswith("unreachable "):
            subprocess.run(["ip", "route", "del", *route.split()], capture_output=True, check=True)
    for folder in _cgroup_folders(slot):
        _remove_cgroup(folder)
    for mount in reversed(_mounts(slot)):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=True)
    if slot.folder.exists():
        shutil.rmtree(slot.folder)


def leftovers(slot: Slot) -> list[str]:
    """Everything of the slot's cluster that still exists, one line each."""
    found = [f"process {pid}" for pid in _living(slot)]
    found += [f"process {pid} in folder of the cluster" for pid in _users_of(slot)]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    found += [f"link {line}" for line in links.stdout.splitlines() if f" {slot.name}-" in line]
    found += [f"route {route}" for route in _routes(slot)]
    found += [f"cgroup {folder}" for folder in _cgroup_folders(slot)]
    found += [f"mount {mount}" for mount in _mounts(slot)]
    return found + ([f"folder {slot.folder}"] if slot.folder.exists() else [])


def _living(slot: Slot) -> list[int]:
    try:
        lines = (slot.folder / "processes").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    pairs = [line.split() for line in lines if len(line.split()) == 2]
    return [int(pid) for pid, start in pairs if str(start_time(int(pid))) == start]


def _users_of(slot: Slot) -> list[int]:
    """Processes of this machine's own namespace that stand in the cluster's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(entry / "cwd").startswith(f"{slot.folder}/"):
                    found.append(int(entry.name))
    return found


def _end_processes(slot: Slot, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while living := _living(slot):
        _kill(living)
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes of {slot.name} do not end: {living}")
        time.sleep(0.01)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _routes(slot: Slot) -> list[str]:
    """Routes of the main table to the networks of the slot, as `ip` prints them."""
    found: list[str] = []
    for network in (slot.front, slot.back):
        shown = subprocess.run(
            ["ip", "route", "show", "to", "root", network],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found += [line.strip() for line in shown.stdout.splitlines()]
    return found


def _cgroup_folders(slot: Slot) -> list[Path]:
    return sorted(CGROUP_ROOT.glob(f"*/{slot.name}"))


def _remove_cgroup(folder: Path, patience: float = 60) -> None:
    """Remove a cgroup tree; the kernel needs a moment after its last process."""
    deadline = time.monotonic() + patience
    while True:
        try:
            for path, _, _ in os.walk(folder, topdown=False):
                os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _mounts(slot: Slot) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4] for line in lines]
    return [point for point in points if f"{point}/".startswith(f"{slot.folder}/")]
