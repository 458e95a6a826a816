"""What a test can do with a running cluster: look, run, break, repair."""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import re
import signal
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.cluster.folders import Folders, write_key
from tests.cluster.homes import Homes
from tests.cluster.host import Host
from tests.cluster.laptop import ENV_SETUP, Laptop, make_laptop
from tests.cluster.layout import CODE_SECRET, HOSTS, LOGIN, NODES, PASSWORD, USERS, Slot
from tests.cluster.network import Network
from tests.cluster.room import StartFailed
from tests.cluster.slow import slow_line
from tests.cluster.switches import Switches
from tests.waiting import eventually


class Handles:
    """A running cluster in the hands of a test."""

    #: Environment lines that put JupyterLab on a cluster user's PATH.
    env_setup = ENV_SETUP
    #: The password of every user, where the login host asks for one.
    password = PASSWORD

    slot: Slot
    switches: Switches
    folders: Folders
    hosts: dict[str, Host]
    network: Network
    homes: Homes

    def _take_hold(self, room: int, pids: Mapping[str, int]) -> None:
        """Make the handles for running namespaces, by the ids of their processes."""
        self.hosts = {name: Host(name, pid, self._cpu) for name, pid in pids.items()}
        self.network = Network(self.slot, room, pids)
        self.homes = Homes(self.folders, room)

    @property
    def _cpu(self) -> int | None:
        """The one processor of a cluster whose jobs have a private /tmp.

        Slurm mounts a job's namespace in the node's. The kernel allows that for a younger
        namespace only, and Linux 6.18 counts their age on each processor separately.
        """
        return min(os.sched_getaffinity(0)) if self.switches.private_tmp else None

    # Run

    def run(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        input: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host as any user, without SSH."""
        return self.hosts[host].run(
            argv, user=user, input=input, env=env, cwd=cwd, timeout=timeout, check=check
        )

    def popen(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command on a host; killing the result kills the command."""
        return self.hosts[host].popen(
            argv, user=user, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr
        )

    def laptop(
        self, user: str = "alice", name: str = "laptop", *, knows: Iterable[str] = HOSTS
    ) -> Laptop:
        """A new, empty laptop of `user`; `knows` lists the hosts in its known_hosts."""
        return make_laptop(self.folders, user, name, knows=knows)

    @contextmanager
    def slow_laptop(
        self, user: str = "alice", name: str = "slow", *, milliseconds: float = 50
    ) -> Iterator[Laptop]:
        """A laptop whose bytes to and from the login host take `milliseconds` longer."""
        with slow_line(milliseconds, self.slot.login_address, 22) as port:
            yield make_laptop(self.folders, user, name, login_port=port)

    def code(self) -> str:
        """The second factor of every user at this moment (RFC 6238, six digits)."""
        secret = base64.b32decode(CODE_SECRET + "=" * (-len(CODE_SECRET) % 8))
        counter = struct.pack(">Q", int(time.time()) // 30)
        digest = hmac.digest(secret, counter, "sha1")
        start = digest[-1] & 15
        (number,) = struct.unpack(">I", digest[start : start + 4])
        return f"{(number & 0x7FFFFFFF) % 1_000_000:06d}"

    # Look

    def home(self, user: str) -> Path:
        """A user's home as this machine can open it."""
        return self.folders.home(user)

    def log(self, host: str, daemon: str) -> str:
        """What a daemon has logged so far."""
        return self.hosts[host].log(daemon)

    def authentications(self, host: str = LOGIN, user: str | None = None) -> int:
        """How many logins the host's sshd has accepted."""
        name = re.escape(user) if user else r"\S+"
        return len(re.findall(rf"^Accepted \S+ for {name} ", self.log(host, "sshd"), re.M))

    def failed_authentications(self, host: str = LOGIN, user: str | None = None) -> int:
        """How many attempts to log in the host's sshd has refused."""
        name = re.escape(user) if user else r"\S+"
        return len(re.findall(rf"^Failed \S+ for {name} ", self.log(host, "sshd"), re.M))

    def jobs(self) -> list[str]:
        """Ids of all jobs that are not yet over."""
        return self.run(LOGIN, ["squeue", "-h", "-o", "%i"], check=True).stdout.split()

    # Break

    def cut(self, end: str) -> None:
        """Pull the cable of a host, or of "laptop"."""
        self.network.cut(end)

    def restore(self, end: str) -> None:
        """Plug a cable in again."""
        self.network.restore(end)

    def black_hole(self) -> None:
        """Lose every packet between laptop and login host in silence."""
        self.network.black_hole()

    def fill_hole(self) -> None:
        """End `black_hole`."""
        self.network.fill_hole()

    def stop(self, host: str, daemon: str, sig: signal.Signals = signal.SIGTERM) -> None:
        """Signal a daemon and wait for its end; sshd's open connections live on."""
        self.hosts[host].stop(daemon, sig)

    def start(self, host: str, daemon: str) -> None:
        """Start a daemon again."""
        self.hosts[host].start(daemon)

    def kill_sessions(self, host: str, user: str | None = None) -> int:
        """Kill the SSH connections into a host, not its listener; how many there were."""
        return self.hosts[host].kill_sessions(user)

    def crash(self, host: str) -> None:
        """Power off a node: its cable is dead and every process gone."""
        self.cut(host)

        def killed() -> bool:
            processes = self.hosts[host].processes()
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            return not processes

        eventually(killed, f"no process is left on {host}", error=TimeoutError)

    @contextmanager
    def changed_host_key(self, host: str) -> Iterator[None]:
        """Let a host show another key than the one that everybody knows."""
        path = self.folders.host(host) / "ssh/ssh_host_ed25519_key"
        kept = path.read_bytes()
        self.stop(host, "sshd")
        try:
            write_key(path, "changed")
            self.start(host, "sshd")
            yield
            self.stop(host, "sshd")
        finally:
            path.write_bytes(kept)
            self.start(host, "sshd")

    # Repair

    def wait_until_idle(self, patience: float = 60) -> None:
        """Wait until every node is idle."""
        shown = ""

        def idle() -> bool:
            nonlocal shown
            # A client that finds nobody listening sleeps for a second before it tries again.
            if not self.hosts[LOGIN].listens(6817):
                shown = "no controller"
                return False
            done = self.run(LOGIN, ["sinfo", "-h", "-N", "-o", "%N %T"])
            shown = done.stdout + done.stderr
            # A node appears once for each of its partitions.
            return set(done.stdout.splitlines()) == {f"{node} idle" for node in NODES}

        eventually(
            idle,
            lambda: f"nodes are not idle: {shown}{self.log(LOGIN, 'slurmctld')[-2000:]}",
            seconds=patience,
            error=StartFailed,
        )

    def heal(self, patience: float = 90) -> None:
        """Repair every fault, end every job, and wait until all nodes are idle."""
        self.fill_hole()
        self.homes.restore_all()
        for end in ("laptop", *HOSTS):
            self.restore(end)
        for host, daemon in self.daemons():
            if self.hosts[host].daemon(daemon) is None:
                self.start(host, daemon)
        if jobs := self.jobs():
            self.run(LOGIN, ["scancel", "--full", "--signal=KILL", *jobs])
            self.run(LOGIN, ["scancel", *jobs])
        # Fails for nodes that are well.
        for node in NODES:
            self.run(LOGIN, ["scontrol", "update", f"nodename={node}", "state=resume"])
        self.wait_until_idle(patience)

    def end_processes(self) -> None:
        """Kill everything that users run on any host."""
        uids = {user.uid for user in USERS}
        for host in self.hosts.values():
            for process in host.processes():
                if process.uid in uids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)

    def daemons(self) -> list[tuple[str, str]]:
        """(host, daemon) of everything that a healthy cluster runs, in the order to start it."""
        records = ["mariadbd", "slurmdbd"] if self.switches.accounting else []
        found = [(LOGIN, daemon) for daemon in ("munged", "sshd", *records, "slurmctld")]
        for node in NODES:
            names = ["munged", "slurmd"] + (["sshd"] if self.switches.node_ssh != "closed" else [])
            found += [(node, daemon) for daemon in names]
        return found
