"""A working folder that is a run's own, with what the notebook reads from its folder.

Small files are copied, large ones and folders of data are linked, and what the code is
seen to write is never a link. A run that goes on finds what it has left here: nothing
that is there is touched.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.linked import linked_state
from jupyter_hpc.batch.runtime.job.patterns import lies_below

#: Nobody reads these from a notebook; the runs of all jobs are in the third.
_LEFT_OUT = {".ipynb_checkpoints", "__pycache__", "hpc-batch", ".hpc-batch"}
#: Of keys and passwords, in a notebook's folder that is a home, there are no copies.
_PRIVATE = {".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config", ".netrc", ".git-credentials"}
_PRIVATE |= {".pgpass", ".pypirc", ".vault-token", ".kaggle", ".huggingface"}
#: More small files than this in all are linked, and folders of them as a whole: each file and
#: each link is work for the file server.
_MAX_COPIES = 1000

#: So many entries of a folder are compared with names that are not known in full.
_MAX_LOOKED_AT = 20_000


class Mirror:
    """Makes the folder of one run; `made` is what it has put there, by its name."""

    def __init__(self, plan: FolderPlan, root: Path, leave: list[str]) -> None:
        self.plan, self.root = plan, str(root)
        #: Names, seen from the notebook's folder, that others put there.
        self.leave = {os.path.normpath(os.path.join(plan.inner, name)) for name in leave}
        self.made: dict[str, tuple[Any, ...]] = {}
        #: What links lead to, with its size, time and number if it is a file.
        self.links: dict[str, list[int]] = {}
        #: Paths outside, with `*`, that the code is seen to write.
        self.patterns: list[str] = []
        self.left_out: list[str] = []
        self.copied = 0
        self._room = plan.written_bytes
        #: Whether the code writes into a folder whose name is not known.
        self._unsure = any("*" in os.path.dirname(item["path"]) for item in plan.written)
        self._listed: dict[str, list[Any]] = {}
        #: Folders that are new: nothing can be in the way there.
        self._new: set[str] = set()

    def run(self) -> Path:
        """The working directory of the program."""
        os.makedirs(self.root, exist_ok=True)
        source, name = self.plan.top(), ""
        if not os.listdir(self.root):
            self._new.add(name)
        for inner in [part for part in self.plan.inner.split("/") if part]:
            if not self.plan.alone:
                self._around(source, name, inner)
            source, name = os.path.join(source, inner), _below(name, inner)
            self._folder(name)
        self._mirror(source, name)
        self._watch_outside()
        return Path(os.path.join(self.root, name))

    def _watch_outside(self) -> None:
        """What the code names by its full path is written there, and no folder keeps it."""
        near = os.path.realpath(self.plan.top())
        for path in self.plan.outside:
            if "*" not in path:
                self.links.setdefault(path, linked_state(path))
            elif lies_below(os.path.realpath(path.partition("*")[0]), near):
                self.patterns.append(path)

    def _around(self, source: str, name: str, inner: str) -> None:
        """What lies beside the notebook's folder, or beside one around it: links."""
        for entry in self._entries(source):
            own = _below(name, entry.name)
            if entry.name == inner or entry.name.startswith(".") or self._is_there(own):
                continue
            if lies_below(self.root, entry.path):  # the folders of runs, and this one among them
                continue
            if self.plan.writes_into(own) and entry.is_dir():
                self._folder(own)
                self._mirror(entry.path, own)
            elif self.plan.writes_file(own):
                self._copy_written(entry.path, own)
            else:
                self._link(entry, own)

    def _mirror(self, source: str, name: str) -> None:
        for entry in self._entries(source):
            own = _below(name, entry.name)
            if entry.name in _LEFT_OUT or own in self.leave:
                continue
            with contextlib.suppress(FileNotFoundError, PermissionError):  # gone, closed to us
                self._entry(entry, own)

    def _entry(self, entry: Any, own: str) -> None:
        linked = entry.is_symlink()
        if entry.is_dir():
            if self._wants_folder(entry.path, own, linked):
                self._folder(own)
                self._mirror(entry.path, own)
            elif not self._is_there(own):
                self._link(entry, own)
        elif self._is_there(own):
            return
        elif linked and not self.plan.writes_file(own):
            self._link(entry, own)
        elif entry.is_file():
            info = entry.stat()
            if self.plan.writes_file(own):
                self._copy_written(entry.path, own)
            elif (
                info.st_size > self.plan.small_bytes
                or self.copied >= _MAX_COPIES
                or entry.name in _PRIVATE
            ):
                self._link(entry, own)
            else:
                self._copy(entry.path, own, info)

    def _wants_folder(self, path: str, own: str, linked: bool) -> bool:
        """Whether a folder is to be one of the run's own, and not a link to the notebook's."""
        there = os.path.join(self.root, own)
        if os.path.lexists(there):  # as an earlier part of this run has left it
            return os.path.isdir(there) and not os.path.islink(there)
        if any(lies_below(name, own) for name in self.leave):
            return True
        if self.plan.writes_into(own, certain=True):
            return True
        if self._holds_written(path, own):
            return True
        if linked or own.rpartition("/")[2] in _PRIVATE:
            return False
        if self.copied >= _MAX_COPIES and not self.plan.writes_into(own):
            return False
        return not self._is_data(path)

    def _holds_written(self, path: str, own: str) -> bool:
        """Whether a file in the folder may be written by a name of which a part is not known."""
        if not self._unsure:
            return False
        folders, seen = [(path, own)], 0
        while folders and seen < _MAX_LOOKED_AT:
            folder, name = folders.pop()
            for entry in self._entries(folder):
                seen += 1
                inner = _below(name, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, inner))
                elif self.plan.writes_file(inner):
                    return True
        return False

    def _is_data(self, folder: str) -> bool:
        files = size = 0
        folders = [folder]
        while folders:
            for entry in self._entries(folders.pop()):
                files += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        size += entry.stat(follow_symlinks=False).st_size
                if files > self.plan.data_files or size > self.plan.data_bytes:
                    return True
        return False

    def _entries(self, folder: str) -> list[Any]:
        """What is in a folder, asked once: looking at it first tells whether it is data."""
        if folder not in self._listed:
            self._listed[folder] = _entries(folder)
        return self._listed[folder]

    def _is_there(self, own: str) -> bool:
        if own.rpartition("/")[0] in self._new:
            return False
        return os.path.lexists(os.path.join(self.root, own))

    def _folder(self, own: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.join(self.root, own))
            self.made[own] = ("made",)
            self._new.add(own)

    def _link(self, entry: Any, own: str) -> None:
        """A link to the notebook's file; one that it has itself stays as it is inside."""
        target = entry.path
        if entry.is_symlink():
            text = os.readlink(entry.path)
            target = os.path.normpath(os.path.join(os.path.dirname(entry.path), text))
            if not text.startswith("/") and lies_below(target, self.plan.top()):
                target = text
        os.symlink(target, os.path.join(self.root, own))
        self.made[own] = ("link", target)
        if target.startswith("/"):
            self.links[target] = [] if entry.is_dir() else linked_state(entry)

    def _copy_written(self, path: str, own: str) -> None:
        """A file that will be written; one that is too large is not there at all."""
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            return
        if info.st_size > self._room:
            self.left_out.append(own)
            return
        self._room -= info.st_size
        self._copy(path, own, info)

    def _copy(self, path: str, own: str, info: os.stat_result) -> None:
        """By hand: thousands of files have to be there within a second."""
        target = os.path.join(self.root, own)
        reader = os.open(path, os.O_RDONLY)
        try:
            # With O_EXCL nothing is ever written through a link.
            mode = stat.S_IMODE(info.st_mode) | stat.S_IWUSR
            writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                length = 0
                while block := os.read(reader, min(1 << 20, info.st_size + 1)):
                    rest = memoryview(block)
                    length += len(block)
                    while rest:
                        rest = rest[os.write(writer, rest) :]
                    if length == info.st_size:
                        break
                os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
                # As the file system has it, which may keep times less exactly.
                now = os.fstat(writer)
                self.made[own] = ("file", now.st_size, now.st_mtime_ns)
            except OSError as error:  # of a full disk it does not say which file
                os.unlink(target)
                raise OSError(error.errno, error.strerror, target) from None
            finally:
                os.close(writer)
        finally:
            os.close(reader)
        self.copied += 1


def _entries(folder: str) -> list[Any]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _below(name: str, inner: str) -> str:
    return f"{name}/{inner}" if name else inner
