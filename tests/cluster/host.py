"""One host of a cluster: run commands in it, start and stop its daemons."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jupyter_hpc.runner import COMMAND_LOG_VARIABLE
from tests.cluster.layout import COMMAND_LOG, user_named
from tests.cluster.room import CLEAN_ENVIRONMENT, StartFailed, on_cpu
from tests.waiting import eventually


@dataclass(frozen=True)
class Daemon:
    """How a daemon is started and found again."""

    argv: tuple[str, ...]
    pid_file: str
    user: str = "root"
    log: str = ""
    #: Where it listens once it is ready.
    port: int | None = None
    #: Most daemons leave for the background themselves.
    stays_in_foreground: bool = False


DAEMONS = {
    "munged": Daemon(
        ("munged", "--num-threads=2", "--pid-file=/run/munge/munged.pid",
         "--seed-file=/run/munge/seed", "--log-file=/var/log/munge/munged.log"),
        "/run/munge/munged.pid", user="munge", log="munge/munged.log",
    ),
    "sshd": Daemon(("/usr/sbin/sshd", "-E", "/var/log/sshd.log"), "/run/sshd.pid", port=22),
    "mariadbd": Daemon(
        ("mariadbd", "--no-defaults", "--user=mysql", "--datadir=/var/lib/mysql",
         "--socket=/run/mysqld/mysqld.sock", "--pid-file=/run/mysqld/mysqld.pid",
         "--log-error=/var/log/mariadbd.log", "--skip-networking", "--skip-log-bin",
         "--performance-schema=OFF", "--innodb-log-file-size=8M",
         "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0",
         "--innodb-lock-wait-timeout=900"),
        "/run/mysqld/mysqld.pid", stays_in_foreground=True,
    ),
    "slurmctld": Daemon(("slurmctld",), "/run/slurm/slurmctld.pid", port=6817),
    "slurmd": Daemon(("slurmd",), "/run/slurm/slurmd.pid", port=6818),
    "slurmdbd": Daemon(("slurmdbd",), "/run/slurm/slurmdbd.pid", port=6819),
}  # fmt: skip


@dataclass(frozen=True)
class Listener:
    """A socket that accepts TCP connections."""

    address: str
    port: int
    uid: int


@dataclass(frozen=True)
class Process:
    """A process of a host, with the ids it has on this machine and inside the host."""

    pid: int
    inner_pid: int
    parent: int
    uid: int
    argv: tuple[str, ...]


class Host:
    """A running host, named by the machine's process id of its process 1."""

    def __init__(self, name: str, pid: int, cpu: int | None = None) -> None:
        self.name = name
        self.pid = pid
        #: The processor that daemons and their jobs stay on, if they have to.
        self._cpu = cpu

    def file(self, path: str) -> Path:
        """A file of the host as this machine can open it."""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> list[str]:
        """The command line that runs `argv` in the host; it ends with whoever started it."""
        identity, home, shell = ["--reuid=0"], "/root", "/bin/bash"
        if user != "root":
            identity = [f"--reuid={user}", f"--regid={user}", "--init-groups"]
            home = "/"
            if user != "munge":
                person = user_named(user)
                home, shell = person.home, person.shell
        variables = {
            **CLEAN_ENVIRONMENT,
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": shell,
            "LANG": "C.UTF-8",
            COMMAND_LOG_VARIABLE: COMMAND_LOG,
            **(env or {}),
        }
        return [
            "nsenter", f"--target={self.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--",
            "setpriv", *identity, "--pdeathsig", "KILL", "--",
            "env", "-i", f"--chdir={cwd or home}", *(f"{k}={v}" for k, v in variables.items()),
            *argv,
        ]  # fmt: skip

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        input: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float = 60,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; all that it started is killed at the deadline."""
        data = input.encode() if isinstance(input, str) else input
        stdin = subprocess.PIPE if data is not None else subprocess.DEVNULL
        process = self.popen(
            argv, user=user, env=env, cwd=cwd,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            stdout, stderr = process.communicate(data, timeout)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        done = subprocess.CompletedProcess(
            list(argv),
            process.returncode,
            stdout.decode("utf-8", "replace"),
            stderr.decode("utf-8", "replace"),
        )
        if check and done.returncode:
            raise RuntimeError(f"{list(argv)} on {self.name}: {done.stdout}{done.stderr}")
        return done

    def popen(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: int | IO[Any] | None = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own; killing it kills the command."""
        return subprocess.Popen(
            self.command(argv, user=user, env=env, cwd=cwd),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    def processes(self) -> list[Process]:
        """All processes of the host but its process 1."""
        namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") == namespace:
                    found.append(_read_process(entry))
        return found

    def start(self, daemon: str, *, wait: bool = True) -> None:
        """Start a daemon; returns when it is ready, or without `wait` when it is on its way."""
        entry = DAEMONS[daemon]
        # Its output goes to a file: a pipe would stay open as long as the daemon lives.
        with open(self.file(f"/var/log/{daemon}.start"), "wb+") as said:
            background = ("sh", "-c", '"$@" &', "sh") if entry.stays_in_foreground else ()
            argv = (*on_cpu(self._cpu), *background, *entry.argv)
            process = self.popen(argv, user=entry.user, stdout=said, stderr=said)
            code = process.wait(60)
            said.seek(0)
            if code:
                message = said.read().decode("utf-8", "replace")
                raise StartFailed(f"{daemon} on {self.name} exited with {code}: {message}")
        if wait:
            eventually(
                lambda: self._is_ready(daemon),
                lambda: f"{daemon} on {self.name} is gone: {self.log(daemon)[-2000:]}",
                error=StartFailed,
            )

    def _is_ready(self, daemon: str) -> bool:
        port = DAEMONS[daemon].port
        return self.daemon(daemon) is not None and (port is None or self.listens(port))

    def log(self, daemon: str) -> str:
        """What a daemon has logged since the cluster came up."""
        name = DAEMONS[daemon].log or f"{daemon}.log"
        try:
            return self.file(f"/var/log/{name}").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def listeners(self, user: str | None = None) -> list[Listener]:
        """The TCP listeners of the host, all or those of one user: what `ss -ltn` shows."""
        found = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    address, _, port = fields[1].rpartition(":")
                    found.append(Listener(_read_address(address), int(port, 16), int(fields[7])))
        return [each for each in found if user is None or each.uid == user_named(user).uid]

    def listens(self, port: int) -> bool:
        """Whether something in the host accepts TCP connections on `port`."""
        return any(each.port == port for each in self.listeners())

    def daemon(self, name: str) -> Process | None:
        """The main process of a daemon, or None if it does not run."""
        try:
            inner = int(self.file(DAEMONS[name].pid_file).read_text())
        except (FileNotFoundError, ValueError):
            return None
        for process in self.processes():
            if process.inner_pid == inner and name in process.argv[0]:
                return process
        return None

    def stop(self, daemon: str, sig: signal.Signals = signal.SIGTERM, patience: float = 60) -> None:
        """Signal a daemon and wait until it has ended; sshd's open sessions live on."""
        process = self.daemon(daemon)
        if process is None:
            return
        os.kill(process.pid, sig)
        eventually(
            lambda: not Path(f"/proc/{process.pid}").exists(),
            f"{daemon} on {self.name} ends on {sig.name}",
            seconds=patience,
            error=TimeoutError,
        )

    def kill_sessions(self, user: str | None = None) -> int:
        """Kill sshd's connections, of one user or of all, not its listener; how many."""
        listener = self.daemon("sshd")
        processes = self.processes()
        killed = 0
        for process in processes:
            # "sshd: alice@pts/0"; since OpenSSH 9.8 "sshd-session: alice@pts/0".
            program, _, whose = process.argv[0].partition(": ")
            if program not in ("sshd", "sshd-session", "sshd-auth"):
                continue
            if listener is not None and process.pid == listener.pid:
                continue
            if user is None or whose.startswith((f"{user} ", f"{user}@")):
                killed += listener is not None and process.parent == listener.pid
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        return killed


def _read_address(text: str) -> str:
    """An address of /proc/net/tcp: words of four bytes, each in this machine's byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return str(ipaddress.ip_address(packed))


def _read_process(entry: Path) -> Process:
    status = dict(
        line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line
    )
    raw = (entry / "cmdline").read_bytes().rstrip(b"\0").decode("utf-8", "replace")
    argv = tuple(raw.split("\0")) if raw else (status["Name"].strip(),)
    return Process(
        pid=int(entry.name),
        inner_pid=int(status["NSpid"].split()[-1]),
        parent=int(status["PPid"]),
        uid=int(status["Uid"].split()[0]),
        argv=argv,
    )
