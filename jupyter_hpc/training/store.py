"""The folder of a run's checkpoints: each is whole or not there, and known to be undamaged.

step-000000120.pt     the state; beside it a folder of that name where parts of it are sharded
step-000000120.json   written last: size and checksum of each file. Without it there is no
                      checkpoint, only what a killed process has left
best.json             the name of the best one, and why
DONE                  the program's word that there is no more to do
.run/                 owner and id; a hidden folder, since a new file elsewhere counts as progress
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import say, torch_module
from jupyter_hpc.training.lease import Lease
from jupyter_hpc.training.ranks import MEETINGS

_PIECE_BYTES = 4 << 20
#: A checkpoint and its manifest; what a training is made of.
Content = dict[str, Any]


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


def _is_of_others(found: os.stat_result) -> bool:
    return hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0)


class CheckpointStore:
    """The checkpoints of one run, newest first; only the leading process writes."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self._keep = keep
        self._lease = Lease(folder / ".run" / "owner", folder)

    def open(self) -> None:
        """Make the folder and take it; UsageError where others write into it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = self.folder.stat()
        if _is_of_others(found):
            raise UsageError(
                f"The folder {self.folder} belongs to another user, who could change what a "
                "checkpoint holds.",
                "Use a folder of your own.",
            )
        if stat.S_IMODE(found.st_mode) & 0o022:
            # A mask of 002 makes such folders; one that is empty holds nothing of others.
            if any(path.name != MEETINGS for path in self.folder.iterdir()):
                raise UsageError(
                    f"Others may write into {self.folder}, and could change what a checkpoint "
                    "holds.",
                    f"Look whether all of it is yours, then: chmod go-w {self.folder}",
                )
            self.folder.chmod(stat.S_IMODE(found.st_mode) & ~0o022)
        (self.folder / ".run").mkdir(exist_ok=True)
        self._lease.take()
        for left in (*self.folder.glob("*.new"), *self.folder.glob(".run/id.new")):
            shutil.rmtree(left) if left.is_dir() else left.unlink()

    def close(self) -> None:
        """Let others have the folder."""
        self._lease.close()

    def check_owner(self) -> None:
        """UsageError if another run has taken the folder over."""
        self._lease.check()

    def run_id(self) -> str:
        """The same for all parts of a run, also if one was killed before its first checkpoint."""
        path = self.folder / ".run" / "id"
        with contextlib.suppress(OSError):
            return path.read_text(encoding="ascii").strip()
        made = uuid.uuid4().hex
        self.write_text(path, made)
        return made

    # ---- reading -------------------------------------------------------------
    def newest(
        self, read: Callable[[str], Content] = lambda name: {}
    ) -> Iterator[tuple[str, Content, Content]]:
        """(name, manifest, what `read` makes of the name) of those that are whole, newest first.

        It is read while the checksums are looked at; what is damaged is passed over and said.
        """
        for path in sorted(self.folder.glob("step-*.json"), reverse=True):
            damage: list[str] = []
            manifest, content = Content(), Content()
            try:
                manifest = json.loads(path.read_text(encoding="utf-8"))
                files = dict(manifest["files"])
                for found in ((self.folder / name).lstat() for name in files):
                    if _is_of_others(found) or not stat.S_ISREG(found.st_mode):
                        raise ValueError("a file of it belongs to somebody else")
                looker = threading.Thread(target=self._look_for_damage, args=(files, damage))
                looker.start()
                try:
                    content = read(path.stem)
                finally:
                    looker.join()
            except Exception as error:  # whatever a damaged file makes of it
                damage.append(f"{type(error).__name__}: {error}")
            if damage:
                say(f"passes over the checkpoint {self.folder / path.stem}: {'; '.join(damage)}")
            else:
                yield path.stem, manifest, content

    def read(self, name: str) -> Content:
        """What the file of a checkpoint holds; nothing in it can run code."""
        path = self.folder / f"{name}.pt"
        content: Content = torch_module().load(path, map_location="cpu", weights_only=True)
        return content

    def _look_for_damage(self, files: dict[str, tuple[int, int]], damage: list[str]) -> None:
        for name, expected in files.items():
            try:
                if checksum(self.folder / name) != tuple(expected):
                    damage.append(f"{name} is not what was written")
            except OSError as error:
                damage.append(str(error))

    # ---- writing -------------------------------------------------------------
    def write(self, name: str, save: Callable[[Any], Any]) -> tuple[int, int]:
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

    def commit(self, name: str, files: dict[str, tuple[int, int]], facts: Content) -> None:
        """From now on these files are a checkpoint; older ones go, but for the best."""
        self._sync_folder()
        self.check_owner()
        manifest = {**facts, "files": files, "time": int(time.time())}
        self.write_text(self.folder / f"{name}.json", json.dumps(manifest))
        if facts.get("is_best"):
            self.write_text(self.folder / "best.json", json.dumps({"name": name, **facts}))
        self._sync_folder()
        best = self.best()
        for path in sorted(self.folder.glob("step-*.json"), reverse=True)[self._keep :]:
            if path.stem != best:
                self._remove(path.stem)

    def best(self) -> str | None:
        """The name of the best checkpoint."""
        try:
            text = (self.folder / "best.json").read_text(encoding="utf-8")
            name = json.loads(text)["name"]
        except (OSError, ValueError, KeyError):
            return None
        return str(name) if (self.folder / f"{name}.json").exists() else None

    def take_folder(self, draft: Path, name: str) -> None:
        """Give a complete folder its name; an earlier checkpoint of that name is no more."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        os.replace(draft, self.folder / name)

    def _remove(self, name: str) -> None:
        """Take a checkpoint away: first its manifest, so that none is ever there in part."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)
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
        self.check_owner()
        path = self.folder / "DONE"
        if done:
            self.write_text(path, time.strftime("%Y-%m-%d %H:%M:%S\n"))
        else:
            path.unlink(missing_ok=True)
