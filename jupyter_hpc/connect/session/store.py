"""What the laptop remembers: running sessions and facts about each cluster.

`sessions/NAME.json` describes the manager that runs now (0600: it holds the secret
of its control endpoints); `memory/NAME.json` keeps what was learnt once: the local
port, the transport that worked, whether the site needs sbatch. `logins/KEY.json` says of one way to
log in whether ssh gets in by itself. `logs/NAME.log` is the
session's log, `logs/NAME.out` what its manager printed past it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jupyter_core.paths import jupyter_data_dir

from jupyter_hpc.logs import private_folder

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SessionRecord:
    """One session as other commands on this laptop see it."""

    cluster: str
    profile: str
    pid: int
    pid_started: float
    port: int
    secret: str
    state: str = "starting"
    job_id: str = ""
    node: str = ""
    transport: str = ""
    ends_at: float | None = None
    log: str = ""
    host: str = ""  #: the computer; several may share a home folder
    problem: str = ""  #: of a session that was left: what may go on although it was to end

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/lab"

    def alive(self) -> bool:
        """Whether the very process that wrote this record still runs, on this computer."""
        return process_started(self.pid) == self.pid_started

    @property
    def is_of_here(self) -> bool:
        """Whether it was made on this computer, as far as its name tells."""
        return self.host in ("", socket.gethostname())

    def wait_gone(self) -> None:
        """Until that process has ended, so that the next look finds a clean table."""
        deadline = time.monotonic() + 10
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.05)


class Standing(Protocol):
    """How a session stands; its SessionStatus says so."""

    state: str
    job_id: str
    node: str
    transport: str
    ends_at: float | None


@dataclass(frozen=True)
class ClusterMemory:
    """What earlier sessions learnt about a cluster."""

    port: int = 0
    transport: str = ""
    transport_reason: str = ""
    launch: str = ""
    launch_reason: str = ""


@dataclass(frozen=True)
class LoginMemory:
    """What earlier logins of one kind learnt: the host, and whether ssh gets in to it alone."""

    host: str
    alone: bool
    config: str  #: the SSH configuration of then
    refused: bool = False  #: ssh was let in less than we were


def process_started(pid: int) -> float | None:
    """When the process started, or None if it does not run: tells a reused pid.

    The same number for as long as the process lives. On Linux these are the kernel's ticks since
    the system's start: psutil's create_time moves when the wall clock is set.
    """
    if sys.platform == "linux":
        return _started_after_boot(pid)
    import psutil  # late, because most commands only read a record or two

    try:
        return float(psutil.Process(pid).create_time())
    except (psutil.Error, ValueError):
        return None


def _started_after_boot(pid: int) -> float | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name, in brackets, may hold anything; the fields after it are numbered from 3 in proc(5).
    state, *fields = stat[stat.rindex(b")") + 1 :].split()
    if state in (b"Z", b"X"):
        return None
    return float(fields[22 - 4])


class Records:
    """Reads and writes the laptop's records below one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(jupyter_data_dir()) / "hpc"
        #: Told when records cannot be written, and when they can again; without it that is an
        #: OSError. What could not be written is written with the next record.
        self.on_trouble: Callable[[str], None] | None = None
        self._unwritten: dict[Path, dict[str, Any]] = {}
        self._in_trouble = False

    def session(self, cluster: str) -> SessionRecord | None:
        """The live session of that name."""
        record = self._record(cluster)
        return record if record is not None and record.alive() else None

    def sessions(self) -> list[SessionRecord]:
        """All live sessions on this laptop."""
        return [record for record in self._records() if record.alive()]

    def left(self) -> list[SessionRecord]:
        """Sessions whose manager died without a word, or could not end a job that may be there.

        A record that cannot be true any more is removed: its job has ended by its time limit,
        or its cluster was a demo, which ends with its session. One of another computer that
        has no job yet stays: it may be on its way there.
        """
        dead = [record for record in self._records() if not record.alive()]
        over = [record for record in dead if self._is_over(record)]
        for record in over:
            if record.is_of_here or record.job_id:
                self.remove_session(record)
        return [record for record in dead if record not in over]

    def _is_over(self, record: SessionRecord) -> bool:
        return bool(
            not (record.job_id or record.problem)
            or record.state == "ended"
            or (record.ends_at is not None and record.ends_at < time.time())
            or record.log != str(self.log_file(record.cluster))
        )

    def _records(self) -> list[SessionRecord]:
        names = sorted(path.stem for path in (self.folder / "sessions").glob("*.json"))
        found = (self._record(name) for name in names)
        return [record for record in found if record is not None]

    def _record(self, cluster: str) -> SessionRecord | None:
        record: SessionRecord | None = _build(SessionRecord, _read(self._session_file(cluster)))
        return record

    def write_session(self, record: SessionRecord) -> None:
        # Where its log is, because a demo keeps it elsewhere; that of the writer comes first.
        log = record.log or str(self.log_file(record.cluster))
        made = {"log": log, "host": record.host or socket.gethostname()}
        self._put(self._session_file(record.cluster), dataclasses.asdict(record) | made)

    def remove_session(self, record: SessionRecord) -> None:
        """Remove our own record, never one that another manager wrote since."""
        self._unwritten.pop(self._session_file(record.cluster), None)
        fields = _read(self._session_file(record.cluster))
        if fields.get("pid") == record.pid and fields.get("pid_started") == record.pid_started:
            with contextlib.suppress(OSError):
                self._session_file(record.cluster).unlink()

    def memory(self, cluster: str) -> ClusterMemory:
        return _build(ClusterMemory, _read(self._memory_file(cluster))) or ClusterMemory()

    def remembered(self) -> list[str]:
        """The names of the clusters and sessions that were used from this laptop."""
        return sorted(path.stem for path in (self.folder / "memory").glob("*.json"))

    def remember(self, cluster: str, **facts: object) -> ClusterMemory:
        """Add facts to what is known about a cluster."""
        _log.info("remembered of %s: %s", cluster, facts)
        known = dataclasses.replace(self.memory(cluster), **facts)  # type: ignore[arg-type]
        self._put(self._memory_file(cluster), dataclasses.asdict(known))
        return known

    def login(self, key: str) -> LoginMemory | None:
        """What is remembered of the logins of that key."""
        found: LoginMemory | None = _build(LoginMemory, _read(self._login_file(key)))
        return found

    def remember_login(self, key: str, known: LoginMemory) -> None:
        if self.login(key) != known:
            self._put(self._login_file(key), dataclasses.asdict(known))

    def _put(self, path: Path, fields: dict[str, Any]) -> None:
        self._unwritten[path] = fields
        try:
            private_folder(self.folder)
            for waiting in list(self._unwritten):
                _write(waiting, self._unwritten[waiting])
                del self._unwritten[waiting]
        except OSError as error:
            if self.on_trouble is None:
                del self._unwritten[path]
                raise
            if not self._in_trouble:
                self._in_trouble = True
                self.on_trouble(
                    f"Records of this laptop cannot be written to {self.folder} "
                    f"({error.strerror or error}). The session goes on; other commands may not "
                    "find it, or see it as it was, until they can."
                )
            return
        if self._in_trouble and self.on_trouble is not None:
            self._in_trouble = False
            self.on_trouble("Records of this laptop can be written again.")

    def log_file(self, cluster: str) -> Path:
        """The log of the sessions of that name; see jupyter_hpc.logs."""
        return self.folder / "logs" / f"{cluster}.log"

    def output_file(self, cluster: str) -> Path:
        """Where a manager in the background prints what went past its log; made 0600.

        Nowhere, if that cannot be written: a session needs no such file.
        """
        path = self.folder / "logs" / f"{cluster}.out"
        try:
            private_folder(self.folder)
            private_folder(path.parent)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        except OSError:
            return Path(os.devnull)
        return path

    def _session_file(self, cluster: str) -> Path:
        return self.folder / "sessions" / f"{cluster}.json"

    def _login_file(self, key: str) -> Path:
        return self.folder / "logins" / f"{key}.json"

    def _memory_file(self, cluster: str) -> Path:
        return self.folder / "memory" / f"{cluster}.json"


class OwnRecord:
    """The record of the session that this process keeps, for as long as it does."""

    def __init__(self, records: Records, name: str, profile: str, port: int, secret: str) -> None:
        pid = os.getpid()
        self._records = records
        self._record = SessionRecord(
            cluster=name,
            profile=profile,
            pid=pid,
            pid_started=process_started(pid) or 0.0,
            port=port,
            secret=secret,
        )
        records.write_session(self._record)

    def follow(self, status: Standing) -> None:
        """Write down how the session stands, if that has changed."""
        fresh = dataclasses.replace(
            self._record,
            state=status.state,
            job_id=status.job_id,
            node=status.node,
            transport=status.transport,
            ends_at=status.ends_at,
        )
        if fresh != self._record:
            self._record = fresh
            self._records.write_session(fresh)

    def leave(self, job_id: str, problem: str) -> None:
        """Let it stay when this process ends: there may be a job that nobody wants."""
        left = dataclasses.replace(self._record, state="left", job_id=job_id, problem=problem)
        self._record = left
        self._records.write_session(left)

    def remove(self) -> None:
        self._records.remove_session(self._record)


def _read(path: Path) -> dict[str, Any]:
    """What a record says; nothing if another user has put it there.

    Commands send a session's secret, and what they want of it, to the port in its record.
    """
    try:
        with open(path, encoding="utf-8") as file:
            if sys.platform != "win32" and os.fstat(file.fileno()).st_uid != os.geteuid() != 0:
                _log.warning("%s is passed over: it belongs to another user", path)
                return {}
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _build(kind: type[Any], fields: dict[str, Any]) -> Any:
    """A record from its file, or None if fields that it needs are not there."""
    known = {field.name for field in dataclasses.fields(kind)}
    try:
        return kind(**{key: value for key, value in fields.items() if key in known})
    except TypeError:
        return None


def _write(path: Path, fields: dict[str, Any]) -> None:
    """Write whole, 0600: the temporary file is made private before it has content."""
    private_folder(path.parent)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(fields, file, indent=1)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
