"""Files below one folder, reached without following a link and never outside of it.

Every folder on the way is opened by its descriptor, so that nobody can put a link in its place
meanwhile. Windows has no such descriptors; there links are looked for before each step.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
from typing import Any, Union

#: Where a file grows until it is whole.
_PART = re.compile(r"\.jhpc-[0-9a-f]{16}\.part")

_AT = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW

#: Names that mean something else on Windows.
_WINDOWS = re.compile(
    r'[<>:"|?*\\\x00-\x1f]|[ .]$|^(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?$', re.I
)

#: A descriptor, or a path where there are none; in the words of Python 3.9.
Folder = Union[int, str]  # noqa: UP007


class BadName(Exception):
    """A path that leads out of the folder, or that this system cannot write."""


def is_part(name: str) -> bool:
    """Whether a name is that of a file on its way."""
    return _PART.fullmatch(name) is not None


def part_name(name: str) -> str:
    """Where the file `name` grows, in the same folder."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    return f".jhpc-{digest[:16]}.part"


def checked_parts(path: str) -> list[str]:
    """The names on the way to a file that another host has named. Raises BadName."""
    parts = path.split("/")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or is_part(part):
            raise BadName("its name would lead somewhere else")
        if os.name == "nt" and _WINDOWS.search(part):
            raise BadName("Windows has no such names")
    return parts


def leads_inside(path: str, link: str, depth: int) -> bool:
    """Whether a link at `path` stays below the first `depth` folders of that path.

    A name before `..` might be a link itself, so `..` counts only at the beginning.
    """
    if not link or link.startswith("/") or "\\" in link or "\0" in link:
        return False
    steps = link.split("/")
    up = 0
    while up < len(steps) and steps[up] in ("..", "."):
        up += 1
    climbed = steps[:up].count("..")
    return ".." not in steps[up:] and climbed <= path.count("/") - min(depth, path.count("/"))


def reason(error: OSError) -> str:
    """Why a file operation failed, as people say it."""
    if error.errno == errno.ENOSPC:
        return "the disk is full there"
    if error.errno == getattr(errno, "EDQUOT", -1):
        return "the quota is used up there"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission denied"
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return "a link is in its way, which is not followed"
    if error.errno == errno.ENOTDIR:
        return "a file or a link is in the place of its folder"
    if error.errno == errno.ENAMETOOLONG:
        return "its name is too long there"
    return (error.strerror or str(error)).lower()


class Tree:
    """The folder `root` and what is below it. Folders are made as they are needed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._open: tuple[str, Folder] | None = None
        #: A folder that was not there when it was last looked for.
        self._missing: str | None = None
        self._new_name = f".jhpc-{os.urandom(8).hex()}.part"

    def close(self) -> None:
        if self._open is not None:
            _close(self._open[1])
            self._open = None

    def make_root(self) -> None:
        os.makedirs(self.root, exist_ok=True)

    def folder(self, parts: list[str], *, make: bool) -> Folder:
        """The folder of these names below the root; valid until the next call. Raises OSError."""
        path = "/".join(parts)
        if self._open is not None and self._open[0] == path:
            return self._open[1]
        if path == self._missing and not make:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.close()
        self._missing = None
        here: Folder = (
            os.open(self.root, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0)) if _AT else (self.root)
        )
        try:
            for part in parts:
                here = _step(here, part, make)
        except FileNotFoundError:
            _close(here)
            self._missing = path
            raise
        except BaseException:
            _close(here)
            raise
        self._open = (path, here)
        return here

    def state(self, parts: list[str]) -> os.stat_result | None:
        """What is there, links as links; None for nothing. Raises OSError."""
        try:
            folder = self.folder(parts[:-1], make=False)
            name, at = _at(folder, parts[-1])
            return os.stat(name, follow_symlinks=False, **at)
        except FileNotFoundError:
            return None

    def open_file(self, parts: list[str]) -> int:
        """A regular file that is there, to be read. Raises OSError."""
        name, at = _at(self.folder(parts[:-1], make=False), parts[-1])
        return os.open(name, os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0), **at)

    def open_part(self, parts: list[str], *, resume: bool) -> int:
        """The file in which a large `parts` grows, ours alone while it is open.

        Raises OSError; FileNotFoundError if it is to be gone on with and nothing usable is there.
        """
        folder = self.folder(parts[:-1], make=not resume)
        name, at = _at(folder, part_name(parts[-1]))
        try:
            fd = os.open(name, os.O_RDWR | _NOFOLLOW, **at)
        except OSError as error:
            if resume or (error.errno == errno.EACCES and not _AT):
                raise
            if not isinstance(error, FileNotFoundError):
                os.unlink(name, **at)
        else:
            try:
                _lock(fd)
                if resume and _is_ours(os.fstat(fd)):
                    return fd
                if resume:
                    raise FileNotFoundError(errno.ENOENT, "nothing to go on with")
                os.unlink(name, **at)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o600, **at)
        try:
            _lock(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def open_new(self, parts: list[str]) -> int:
        """A file that becomes `parts` at once, under a name that nobody else uses."""
        name, at = _at(self.folder(parts[:-1], make=True), self._new_name)
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o600, **at)

    def finish(self, parts: list[str], *, new: bool) -> None:
        """Give a file of open_new or open_part its name, in place of what had it."""
        folder = self.folder(parts[:-1], make=False)
        old, at = _at(folder, self._new_name if new else part_name(parts[-1]))
        name, _ = _at(folder, parts[-1])
        if at:
            os.replace(old, name, src_dir_fd=at["dir_fd"], dst_dir_fd=at["dir_fd"])
        else:
            os.replace(old, name)

    def drop(self, parts: list[str], *, new: bool) -> None:
        """Delete a file that will not get its name."""
        with contextlib.suppress(OSError):
            folder = self.folder(parts[:-1], make=False)
            name, at = _at(folder, self._new_name if new else part_name(parts[-1]))
            os.unlink(name, **at)

    def link(self, parts: list[str], leads_to: str) -> None:
        """A link in the place of whatever file was there. Raises OSError."""
        name, at = _at(self.folder(parts[:-1], make=True), self._new_name)
        os.symlink(leads_to, name, **at)
        self.finish(parts, new=True)

    def settle_folder(self, parts: list[str], mode: int) -> None:
        """Make a folder, with the permissions that it has to have."""
        folder = self.folder(parts, make=True)
        if isinstance(folder, int):
            os.chmod(folder, mode)

    def remove(self, parts: list[str]) -> None:
        """Delete a file, a link or an empty folder. Raises OSError."""
        found = self.state(parts)
        if found is None:
            return
        name, at = _at(self.folder(parts[:-1], make=False), parts[-1])
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(name, **at)
        else:
            os.unlink(name, **at)

    def names(self, parts: list[str]) -> list[tuple[str, bool]]:
        """What a folder holds, each with whether it is a folder itself. Raises OSError."""
        folder = self.folder(parts, make=False)
        with os.scandir(folder) as found:
            return sorted((each.name, each.is_dir(follow_symlinks=False)) for each in found)

    def folds_case(self) -> bool:
        """Whether `A` and `a` are one file here, as on most laptops. Raises OSError."""
        self.make_root()
        os.close(self.open_new([self._new_name]))
        found = os.path.exists(os.path.join(self.root, self._new_name.upper()))
        self.drop([self._new_name], new=True)
        return found

    def free_bytes(self) -> int | None:
        """What the disk still takes; None where that is not known."""
        if sys.platform == "win32":
            return None
        path = os.path.abspath(self.root)
        while not os.path.exists(path):
            path = os.path.dirname(path)
        with contextlib.suppress(OSError):
            disk = os.statvfs(path)
            return disk.f_bavail * disk.f_frsize
        return None


def _at(folder: Folder, name: str) -> tuple[str, dict[str, Any]]:
    if isinstance(folder, int):
        return name, {"dir_fd": folder}
    return os.path.join(folder, name), {}


def _step(folder: Folder, name: str, make: bool) -> Folder:
    """The folder `name` in `folder`, which is closed."""
    path, at = _at(folder, name)
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o777, **at)
    if not isinstance(folder, int):
        if os.path.islink(path):
            raise OSError(errno.ELOOP, "a link")
        return path
    opened = os.open(path, _FOLDER, **at)
    os.close(folder)
    return opened


def _close(folder: Folder) -> None:
    if isinstance(folder, int):
        with contextlib.suppress(OSError):
            os.close(folder)


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody else has put the file there, or can write to it."""
    ours = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    alone = found.st_nlink == 1 and (os.name == "nt" or not found.st_mode & 0o022)
    return stat.S_ISREG(found.st_mode) and ours and alone


def _lock(fd: int) -> None:
    """BlockingIOError if another transfer writes to the same file; not every system can tell."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(errno.EBUSY, "another transfer writes it now") from None
    except OSError:
        return
