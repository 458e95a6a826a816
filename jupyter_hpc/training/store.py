"""The folder of a run's checkpoints: each is whole or not there, and known to be undamaged.

step-000000120.pt     the state; a folder instead of a file where it is sharded
step-000000120.json   written last: size and checksum of each file. Without it there is no
                      checkpoint, only what a killed process has left
best.json             the name of the best one, and why
DONE                  the program's word that there is no more to do
.run/                 lock and id; a hidden folder, since a new file elsewhere counts as progress
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import say

_PIECE_BYTES = 4 << 20
#: How long to wait for a process on another node that still holds the folder.
LOCK_SECONDS = 60.0


class CheckedFile:
    """A new file that knows the checksum of what was written into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.checksum, self.size = 0, 0

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        self.size += len(data)
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()


def checksum(path: Path) -> tuple[int, int]:
    """(checksum, size) of a file."""
    found, size = 0, 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            found, size = zlib.crc32(piece, found), size + len(piece)
    return found, size


class CheckpointStore:
    """The checkpoints of one run, newest first; only the leading process writes."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self._keep = keep
        self._lock: IO[str] | None = None

    def open(self, wait_seconds: float = LOCK_SECONDS) -> None:
        """Make the folder and take it; UsageError where others write into it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = self.folder.stat()
        if hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0):
            raise UsageError(
                f"The folder {self.folder} belongs to another user, who could change what a "
                "checkpoint holds.",
                "Use a folder of your own.",
            )
        if stat.S_IMODE(found.st_mode) & 0o022:
            # A mask of 002 makes such folders; one that is empty holds nothing of others.
            if any(self.folder.iterdir()):
                raise UsageError(
                    f"Others may write into {self.folder}, and could change what a checkpoint "
                    "holds.",
                    f"Look whether all of it is yours, then: chmod go-w {self.folder}",
                )
            self.folder.chmod(stat.S_IMODE(found.st_mode) & ~0o022)
        (self.folder / ".run").mkdir(exist_ok=True)
        self._take(wait_seconds)
        for left in (*self.folder.glob("*.new"), *self.folder.glob(".run/*.new")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _take(self, wait_seconds: float) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        path = self.folder / ".run" / "lock"
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115  # held until close()
        deadline = time.monotonic() + wait_seconds
        while True:
            try:  # not flock: workers that are copies of this process would hold it as well
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                holder = path.read_text(encoding="utf-8").strip()
                if holder.partition(" ")[0] == socket.gethostname():
                    file.close()
                    raise UsageError(
                        f"Another process ({holder}) trains into {self.folder}.",
                        "End it, or give this run another folder: Run(folder=…).",
                    ) from None
                if time.monotonic() > deadline:  # mostly of a node that was lost
                    say(f"{holder} still holds {self.folder}; this run goes on without it")
                    break
                time.sleep(0.2)
            except OSError:  # a file system without locks
                break
        file.truncate(0)
        file.write(f"{socket.gethostname()} {os.getpid()}\n")
        file.flush()
        self._lock = file

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def run_id(self) -> str:
        """The same for all parts of a run, also if one was killed before its first checkpoint."""
        path = self.folder / ".run" / "id"
        with contextlib.suppress(OSError):
            return path.read_text(encoding="ascii").strip()
        made = uuid.uuid4().hex
        self.write_text(path, made)
        return made

    # ---- reading -------------------------------------------------------------
    def newest(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Names and manifests, newest first; those that cannot be read are passed over and said."""
        for path in sorted(self.folder.glob("step-*.json"), reverse=True):
            try:
                manifest = json.loads(path.read_text(encoding="utf-8"))
                files = dict(manifest["files"])
                if any(self._is_foreign(self.folder / name) for name in files):
                    raise ValueError("a file of it belongs to somebody else")
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.pass_over(path.stem, str(error))
                continue
            yield path.stem, manifest

    @staticmethod
    def _is_foreign(path: Path) -> bool:
        found = path.lstat()
        owner = hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0)
        return owner or not stat.S_ISREG(found.st_mode)

    def damage(self, manifest: dict[str, Any]) -> str:
        """What is wrong with the files of a checkpoint; empty if nothing is."""
        for name, (expected, size) in manifest["files"].items():
            try:
                if (self.folder / name).stat().st_size != size:
                    return f"{name} has another size than was written"
                if checksum(self.folder / name)[0] != expected:
                    return f"{name} has another checksum than was written"
            except OSError as error:
                return str(error)
        return ""

    def pass_over(self, name: str, why: str) -> None:
        say(f"passes over the checkpoint {self.folder / name}: {why}")

    # ---- writing -------------------------------------------------------------
    def write(self, name: str, save: Callable[[Any], None]) -> tuple[int, int]:
        """One file, on the disk when this returns; whatever fails leaves no trace of it."""
        path = self.folder / name
        draft = path.with_name(path.name + ".new")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb", buffering=0) as file:
                checked = CheckedFile(file)
                save(checked)
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return checked.checksum, checked.size

    def write_text(self, path: Path, text: str) -> None:
        """A small file, whole."""
        self.write(str(path.relative_to(self.folder)), lambda file: file.write(text.encode()))

    def commit(self, name: str, files: dict[str, tuple[int, int]], facts: dict[str, Any]) -> None:
        """From now on it is a checkpoint; older ones go, but for the best."""
        manifest = {**facts, "files": files, "time": int(time.time())}
        self._sync_folder()
        self.write_text(self.folder / f"{name}.json", json.dumps(manifest))
        if facts.get("is_best"):
            self.write_text(self.folder / "best.json", json.dumps({"name": name, **facts}))
        self._sync_folder()
        self._forget()

    def best(self) -> str | None:
        """The name of the best checkpoint."""
        try:
            text = (self.folder / "best.json").read_text(encoding="utf-8")
            name = json.loads(text)["name"]
        except (OSError, ValueError, KeyError):
            return None
        return str(name) if (self.folder / f"{name}.json").exists() else None

    def _forget(self) -> None:
        best = self.best()
        manifests = sorted(self.folder.glob("step-*.json"), reverse=True)
        for path in manifests[self._keep :]:
            if path.stem != best:
                self.remove(path.stem)

    def take_folder(self, draft: Path, name: str) -> None:
        """Give a complete folder its name; an earlier checkpoint of that name is no more."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        os.replace(draft, self.folder / name)

    def remove(self, name: str) -> None:
        """Take a checkpoint away: first its manifest, so that none is ever there in part."""
        for path in self.folder.glob(f"{name}.json"):
            path.unlink(missing_ok=True)
        for path in (self.folder / name, *self.folder.glob(f"{name}.*")):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(True)

    def _sync_folder(self) -> None:
        with contextlib.suppress(OSError):  # not every file system can
            descriptor = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def set_done(self, done: bool) -> None:
        """Write the program's word that there is no more to do, or take it back."""
        path = self.folder / "DONE"
        if done:
            self.write_text(path, time.strftime("%Y-%m-%d %H:%M:%S\n"))
        else:
            path.unlink(missing_ok=True)
