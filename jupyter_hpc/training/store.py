"""The folder of a run's checkpoints: each is whole or not there, and known to be undamaged.

step-000000120-00003.pt    the state; beside it a folder of that name where parts are sharded
step-000000120-00003.json  named last: size and checksum of each file. Without it there is no
                           checkpoint, only what a killed process has left
step-….json.damaged        one that could not be read, set aside with its files
best.json                  the name of the best one, and why
DONE                       the program's word that there is no more to do
.run/                      owner, id and drafts; hidden, since a new file elsewhere is progress

Whatever is written or removed is renamed out of, or into, the owner's folder `.run/ID.drafts`. A
new owner takes that of the one before away, who then can change nothing, wherever it is held up.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training.common import say, torch_module
from jupyter_hpc.training.lease import Lease
from jupyter_hpc.training.ranks import MEETINGS

_PIECE_BYTES = 4 << 20
#: Files and folders of checkpoints, and nothing of the user's; the name of the checkpoint.
_OWN = re.compile(r"(step-\d{9,}-\d{5,})(\.(pt|ckpt|json))?$")
_FILES = (".pt", ".ckpt", "")
#: Marks of the job script, one for each of its steps that is over.
_STEP_MARK = ".step-"
#: The owners that some file servers show for files of everybody.
_NOBODY = (65534, 4294967294)
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
    return hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0, *_NOBODY)


class CheckpointStore:
    """The checkpoints of one run, newest first; only the leading process writes."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        #: Where this owner writes what has no name yet.
        self.drafts = folder / ".run"
        self._keep, self._is_owner = keep, False
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
            names = [path.name for path in self.folder.iterdir()]
            if any(name != MEETINGS and not name.startswith(_STEP_MARK) for name in names):
                raise UsageError(
                    f"Others may write into {self.folder}, and could change what a checkpoint "
                    "holds.",
                    f"Look whether all of it is yours, then: chmod go-w {self.folder}",
                )
            self.folder.chmod(stat.S_IMODE(found.st_mode) & ~0o022)
        hidden = self.folder / ".run"
        hidden.mkdir(exist_ok=True)
        self.drafts = hidden / f"{self._lease.take()}.drafts"
        self.check_owner()
        for left in hidden.glob("*.drafts"):
            with contextlib.suppress(FileNotFoundError):  # another one begins just now
                # From now on nothing in it can get a name.
                left.rename(left.with_suffix(f".{self.drafts.stem}.gone"))
        for gone in hidden.glob("*.gone"):
            shutil.rmtree(gone, ignore_errors=True)
        self.drafts.mkdir()
        self._is_owner = True
        for path in list(self.folder.iterdir()):
            if (name := _OWN.match(path.name)) and not self._is_there(name[1]):
                self._remove(name[1])

    def close(self) -> None:
        """Let others have the folder."""
        if self._is_owner:
            shutil.rmtree(self.drafts, ignore_errors=True)
        self._is_owner = False
        self._lease.close()

    def check_owner(self) -> None:
        """UsageError if another run has taken the folder over."""
        self._lease.check()

    def has_id(self) -> bool:
        """Whether a part of this run has begun before."""
        return (self.folder / ".run" / "id").exists()

    def run_id(self) -> str:
        """The same for all parts of a run, also if one was killed before its first checkpoint."""
        with contextlib.suppress(OSError):
            return (self.folder / ".run" / "id").read_text(encoding="ascii").strip()
        made = uuid.uuid4().hex
        self.write_text(".run/id", made)
        return made

    # ---- reading -------------------------------------------------------------
    def newest(
        self, read: Callable[[str], Content] = lambda name: {}
    ) -> Iterator[tuple[str, Content, Content]]:
        """(name, manifest, what `read` makes of the name) of those that are whole, newest first.

        It is read while the checksums are looked at; what is damaged is passed over and said.
        """
        damaged = []
        for path in sorted(self.folder.glob("step-*.json"), reverse=True):
            damage: list[str] = []
            manifest, content = Content(), Content()
            try:
                manifest = json.loads(path.read_text(encoding="utf-8"))
                files = dict(manifest["files"])
                for found in ((self.folder / name).lstat() for name in files):
                    if _is_of_others(found):
                        raise ValueError("a file of it belongs to somebody else")
                    if not stat.S_ISREG(found.st_mode):
                        raise ValueError("a link or a folder is where a file of it was")
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
                damaged.append(path.stem)
                continue
            while damaged and self._is_owner:  # not where none could be read
                self._set_aside(damaged.pop())
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
        """(checksum, size) of a new draft, which is on the disk when this returns."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            descriptor = os.open(self.drafts / name, flags, 0o600)
        except FileNotFoundError:
            self.keep_drafts()
            descriptor = os.open(self.drafts / name, flags, 0o600)
        with open(descriptor, "wb", buffering=0) as file:
            checked = CheckedFile(file)
            save(checked)
            os.fsync(file.fileno())
        return checked.checksum, checked.size

    def keep_drafts(self) -> None:
        """Have a place for drafts, also where one that opened the folder at the same moment took
        it away and then lost to this owner; UsageError if it was this one that lost."""
        self.check_owner()
        if self._is_owner:
            self.drafts.mkdir(exist_ok=True)

    def write_text(self, name: str, text: str) -> None:
        """A small file, whole."""
        draft = Path(name).name
        try:
            self.write(draft, lambda file: file.write(text.encode()))
            self._place(draft, name)
        except BaseException:
            with contextlib.suppress(OSError):
                (self.drafts / draft).unlink()
            raise

    def commit(self, name: str, files: dict[str, tuple[int, int]], facts: Content) -> None:
        """From now on these files are a checkpoint, its drafts with them; older ones go, but for
        the best."""
        manifest = json.dumps({**facts, "files": files, "time": int(time.time())})
        # What needs room comes before the first of them has its name.
        self.write(f"{name}.json", lambda file: file.write(manifest.encode()))
        if facts.get("is_best"):
            best = json.dumps({"name": name, **facts})
            self.write("best.json", lambda file: file.write(best.encode()))
        self._remove(name)
        for end in _FILES:
            if (self.drafts / f"{name}{end}").exists():
                self._place(f"{name}{end}")
        self._sync_folder()
        self._place(f"{name}.json")
        if facts.get("is_best"):
            self._place("best.json")
        self._sync_folder()
        kept = (name, self.best())
        for path in sorted(self.folder.glob("step-*.json"), reverse=True)[self._keep :]:
            if path.stem not in kept:
                self._remove(path.stem)

    def discard(self, name: str) -> None:
        """Leave no trace of a checkpoint that could not be written."""
        with contextlib.suppress(OSError, UsageError):
            for draft in self.drafts.glob(f"{name}*"):
                _delete(draft)
            if not self._is_there(name):
                self._remove(name)

    def best(self) -> str | None:
        """The name of the best checkpoint."""
        try:
            text = (self.folder / "best.json").read_text(encoding="utf-8")
            name = str(json.loads(text)["name"])
        except (OSError, ValueError, KeyError):
            return None
        return name if self._is_there(name) else None

    def _is_there(self, name: str) -> bool:
        return (self.folder / f"{name}.json").exists()

    def _files(self, name: str) -> list[Path]:
        """What is there of a checkpoint, its manifest first."""
        found = [self.folder / f"{name}{end}" for end in (".json", *_FILES)]
        return [path for path in found if path.exists()]

    def _place(self, draft: str, name: str = "") -> None:
        """Give a draft its name, unless another one has taken the folder over."""
        self.check_owner()
        os.replace(self.drafts / draft, self.folder / (name or draft))

    def _remove(self, name: str) -> None:
        """Take a checkpoint away: first its manifest, so that none is ever there in part."""
        for path in self._files(name):
            self.check_owner()
            gone = self.drafts / f"{path.name}.gone"
            os.replace(path, gone)
            _delete(gone)

    def _set_aside(self, name: str) -> None:
        """Take a damaged checkpoint out of the count, for a look at it."""
        with contextlib.suppress(OSError):
            for path in self._files(name):
                aside = path.with_name(f"{path.name}.damaged")
                _delete(aside)
                path.rename(aside)

    def _sync_folder(self) -> None:
        with contextlib.suppress(OSError):  # not every file system can
            descriptor = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def set_done(self, done: bool) -> None:
        """Write the program's word that there is no more to do, or take it back.

        A chain does not know folders of one's own: where a program has several runs, the one that
        was begun last decides.
        """
        self.check_owner()
        job = os.environ.get("JUPYTER_HPC_CHECKPOINTS") or os.environ.get("JUPYTER_HPC_OUTPUT")
        if done:
            self.write_text("DONE", time.strftime("%Y-%m-%d %H:%M:%S\n"))
            if job and Path(job).absolute() != self.folder:
                Path(job).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.folder / "DONE", Path(job, "DONE"))
        else:
            for folder in (self.folder, job or self.folder):
                Path(folder, "DONE").unlink(missing_ok=True)


def not_saved(folder: Path) -> HpcError:
    """What is said in place of DONE."""
    return HpcError(
        f"The end of this training could not be saved in {folder}.",
        "Make room there and start it again: it goes on from the one before.",
    )


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
