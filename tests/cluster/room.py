"""The namespaces of a cluster: one machine room and its hosts, tied to one lifeline.

The room holds the switch's network and the shared /home. Each host is process 1
of its own mount, uts, ipc, pid and network namespaces. All of them read from
one pipe whose other end only the owner holds: when the owner ends, by whatever
signal, they end, and the kernel removes every process, cable and mount with them.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import slots
from tests.cluster.layout import GPU_TYPES, HOSTS, Slot

_HERE = Path(__file__).parent
CHECKOUT = _HERE.parent.parent

#: Controllers that Slurm's cgroup plugins use, where the kernel has them in version 1.
_CONTROLLERS = ("freezer", "devices", "cpuset", "memory", "cpuacct")

CLEAN_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class StartFailed(RuntimeError):
    """A part of the cluster did not come up; the message holds what it said."""


def has_cgroups() -> bool:
    """Whether this kernel offers what Slurm needs to confine jobs."""
    return all((slots.CGROUP_ROOT / name / "cgroup.procs").exists() for name in _CONTROLLERS[:2])


def on_cpu(cpu: int | None) -> list[str]:
    """The beginning of a command line that stays on one processor."""
    return [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]


@dataclass
class Room:
    """The running namespaces of one cluster."""

    slot: Slot
    #: Process ids as this machine sees them.
    pid: int = 0
    host_pids: dict[str, int] = field(default_factory=dict)
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lifeline: int | None = None

    def open(
        self,
        *,
        root: Path,
        python_env: Path,
        cgroups: bool,
        gpu_nodes: tuple[str, ...],
        cpu: int | None = None,
        keep: tuple[int, ...] = (),
    ) -> None:
        """Start room and hosts, on one processor if `cpu` names it.

        They outlive this process if `keep` holds descriptors for them.
        """
        reader, writer = os.pipe()
        self._lifeline = writer
        inherited = (writer, *keep) if keep else ()
        try:
            room = self._spawn(
                ["unshare", "--mount", "--net", "--propagation", "slave", "--"],
                [str(_HERE / "room.sh"), str(self.slot.folder)],
                {}, reader, inherited,
            )  # fmt: skip
            self.pid = room.pid
            slots.record_process(self.slot, room.pid)
            self._await_ready(room, "machine room")
            controllers = self._make_cgroups() if cgroups else []
            started = {
                host: self._spawn(
                    [*on_cpu(cpu), "nsenter", f"--mount=/proc/{room.pid}/ns/mnt", "--"],
                    ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork",
                     "--mount-proc", "--propagation", "slave", "--", str(_HERE / "init.sh")],
                    {
                        "HOST": host,
                        "ROOT": str(root),
                        "FOLDER": str(self.slot.folder),
                        "CHECKOUT": str(CHECKOUT),
                        "PYTHON_ENV": str(python_env),
                        "GPUS": str(len(GPU_TYPES) if host in gpu_nodes else 0),
                        "CGROUPS": " ".join(controllers),
                        "CGROUP_FOLDER": self.slot.name,
                    },
                    reader, inherited,
                )
                for host in HOSTS
            }  # fmt: skip
            for host, child in started.items():
                self._await_ready(child, host)
                self.host_pids[host] = _only_child(child.pid)
                slots.record_process(self.slot, self.host_pids[host])
        finally:
            os.close(reader)

    def close(self) -> None:
        """Let go of the lifeline and wait for the processes to end."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        for child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(2)
            if child.stdout is not None:
                child.stdout.close()

    def _spawn(
        self,
        prefix: list[str],
        command: list[str],
        environment: dict[str, str],
        stdin: int,
        inherited: tuple[int, ...],
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [*prefix, *command],
            env={**CLEAN_ENVIRONMENT, **environment},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=inherited,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def _await_ready(self, child: subprocess.Popen[bytes], name: str, patience: float = 60) -> None:
        assert child.stdout is not None
        said = b""
        deadline = time.monotonic() + patience
        while not said.endswith(b"ready\n"):
            left = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([child.stdout], [], [], left)
            chunk = os.read(child.stdout.fileno(), 4096) if readable else b""
            if not chunk:
                raise StartFailed(f"{name} did not come up: {said.decode('utf-8', 'replace')}")
            said += chunk

    def _make_cgroups(self) -> list[str]:
        """A folder for each host in each controller; returns the controllers there are."""
        found = []
        for name in _CONTROLLERS:
            root = slots.CGROUP_ROOT / name
            if not (root / "cgroup.procs").exists():
                continue
            found.append(name)
            top = root / self.slot.name
            for folder in (top, *(top / host for host in HOSTS)):
                folder.mkdir(exist_ok=True)
                if name == "cpuset":  # A new cpuset is empty and takes no process.
                    for key in ("cpuset.cpus", "cpuset.mems"):
                        (folder / key).write_text((root / key).read_text())
        return found


def _only_child(pid: int) -> int:
    """The one child of a process: `unshare --fork` waits for process 1 of its namespace."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
