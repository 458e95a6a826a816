"""One owner of a folder, on whichever node: it says so every few seconds, and stops if replaced.

Locks of file systems do not decide this: some reach one node only, others outlive a lost one. Who
finds an owner waits whether its record is touched again, by what it sees itself and not by clocks.
An owner that was taken for dead, frozen or cut off, finds another's record and writes nothing more.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import say

#: How often an owner touches its record, and how long it has to be untouched.
BEAT_SECONDS, DEAD_SECONDS = 5.0, 30.0


class Lease:
    """The right to write into a folder; its record is a file of it."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path, self._folder = path, folder
        self._own: dict[str, Any] = {}
        #: Who has it now, once that is somebody else.
        self.taken_by = ""
        #: Whose record is still to be replaced.
        self._replaced = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> str:
        """Become the owner, under an id of its own; UsageError if another one is at work."""
        before = found = self._read()
        if not self._is_over(found[0]):
            say(f"looks for up to {DEAD_SECONDS:.0f} s whether {_name(found[0])} still trains into "
                f"{self._folder}")  # fmt: skip
            deadline = time.monotonic() + DEAD_SECONDS
            while found == before and time.monotonic() < deadline:
                time.sleep(BEAT_SECONDS / 10)
                found = self._read()
            if found != before and not self._is_over(found[0]):
                raise UsageError(
                    f"{_name(found[0])} trains into {self._folder}.",
                    "End it, or give this run another folder: Run(folder=…).",
                )
        job = os.environ.get("SLURM_JOB_ID")
        self._own = {"id": uuid.uuid4().hex, "pid": os.getpid(), "job": job, **_place()}
        self._replaced, self.taken_by = found[0].get("id", ""), ""
        self._write()
        self._ended.clear()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()
        return str(self._own["id"])

    def check(self) -> None:
        """UsageError if another one has taken the folder meanwhile."""
        self._look()
        if self.taken_by:
            raise UsageError(
                f"{self.taken_by} has taken {self._folder} over; this run writes nothing more.",
                f"Let the other go on. A run is taken over that gives no sign of life for "
                f"{DEAD_SECONDS:.0f} s, or whose process begins another one.",
            )

    def close(self) -> None:
        """Let others have it; the record stays, so that one who was frozen before finds it."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            if self._read()[0].get("id") == self._own["id"]:
                self._own["ended"] = True
                self._write()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS) and not self.taken_by:
            self._look()
            if not self.taken_by:
                with contextlib.suppress(OSError):
                    os.utime(self._path)

    def _look(self) -> None:
        record, _ = self._read()
        if record and record["id"] not in (self._own["id"], self._replaced):
            self.taken_by = _name(record)
        elif not self.taken_by and record.get("id") != self._own["id"]:
            with contextlib.suppress(OSError):  # what cannot be looked at may be another's
                if record or not self._path.exists():  # the disk was full, or it was removed
                    self._write()

    def _read(self) -> tuple[dict[str, Any], int]:
        """(the record, when it was touched); opened anew, since NFS then asks its server."""
        try:
            with open(self._path, encoding="utf-8") as file:
                record = json.load(file)
                return (record if "id" in record else {}), os.fstat(file.fileno()).st_mtime_ns
        except (OSError, ValueError, TypeError):
            return {}, 0

    def _write(self) -> None:
        draft = self._path.with_name(f"{self._path.name}.{self._own['id']}.new")
        try:
            draft.write_text(json.dumps(self._own), encoding="utf-8")
            os.replace(draft, self._path)
            self._replaced = ""
        except OSError as error:
            say(f"that this process trains into {self._folder} cannot be written down: {error}")
            draft.unlink(missing_ok=True)

    @staticmethod
    def _is_over(record: dict[str, Any]) -> bool:
        """Whether that run has ended, or is seen to be gone; one elsewhere never is.

        An earlier run of this process is: a notebook has begun another one.
        """
        if not record or record.get("ended"):
            return True
        if any(record.get(name) != value for name, value in _place().items()):
            return False
        try:
            if int(record["pid"]) != os.getpid():
                os.kill(int(record["pid"]), 0)
                return False
        except ProcessLookupError:
            pass
        except (OSError, KeyError, ValueError):
            return False
        return True


def _place() -> dict[str, Any]:
    """Where a number of a process means the same one: a host, and a container on it."""
    with contextlib.suppress(OSError):
        return {"host": socket.gethostname(), "space": os.stat("/proc/self/ns/pid").st_ino}
    return {"host": socket.gethostname(), "space": 0}


def _name(record: dict[str, Any]) -> str:
    job = f"Job {record['job']}" if record.get("job") else f"Process {record.get('pid')}"
    return f"{job} on {record.get('host')}"
