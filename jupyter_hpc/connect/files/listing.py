"""What is to be sent: every file, folder and link below what was named."""

from __future__ import annotations

import glob
import os
import stat
from typing import NamedTuple

from jupyter_hpc.connect.files.tree import is_part, leads_inside, reason


class Entry(NamedTuple):
    """One thing to be sent; `path` is its place below the target, with `/` between names."""

    path: str
    kind: str  #: "f" a file, "d" a folder, "l" a link
    size: int
    mtime: int  #: nanoseconds
    mode: int
    link: str


class Source(NamedTuple):
    """Something that was named: a path here, and its name below the target ("": its content)."""

    path: str
    name: str
    limit: int = -1  #: no more bytes than this of a file; -1: all


class Listing:
    """The entries of all sources, where each is read, and what cannot be sent, with the reason."""

    def __init__(self, *, follow: bool) -> None:
        self.entries: list[Entry] = []
        self.places: list[str] = []
        self.left: list[tuple[str, str]] = []
        self._follow = follow
        self._links: list[tuple[Entry, str]] = []

    def add(self, source: Source) -> None:
        """List one source; a link that was named itself is followed. Raises OSError."""
        found = os.stat(source.path)
        if stat.S_ISDIR(found.st_mode):
            depth = 1 if source.name else 0
            if source.name:
                self._take(Entry(source.name, "d", 0, found.st_mtime_ns, _mode(found), ""), "")
            self._walk(source.path, source.name, depth, ((found.st_dev, found.st_ino),))
        else:
            self._file(source.path, source.name, found, source.limit)

    def finish(self) -> None:
        """Links come last: nothing is written through one of them."""
        for entry, place in self._links:
            self._take(entry, place)
        self._links = []

    def _take(self, entry: Entry, place: str) -> None:
        self.entries.append(entry)
        self.places.append(place)

    def _walk(self, folder: str, name: str, depth: int, above: tuple[tuple[int, int], ...]) -> None:
        try:
            with os.scandir(folder) as listed:
                found = sorted(listed, key=lambda each: each.name)
        except OSError as error:
            self.left.append((name or folder, reason(error)))
            return
        folders = []
        for each in found:
            path = f"{name}/{each.name}" if name else each.name
            if is_part(each.name):
                continue
            try:
                state = each.stat(follow_symlinks=self._follow)
            except OSError as error:
                self.left.append((path, reason(error)))
                continue
            if stat.S_ISLNK(state.st_mode):
                self._link(each.path, path, state, depth)
            elif stat.S_ISDIR(state.st_mode):
                folders.append((each.path, path, state))
            else:
                self._file(each.path, path, state)
        for place, path, state in folders:
            here = (state.st_dev, state.st_ino)
            if here in above:
                self.left.append((path, "it is a link to a folder above itself"))
                continue
            self._take(Entry(path, "d", 0, state.st_mtime_ns, _mode(state), ""), "")
            self._walk(place, path, depth, (*above, here))

    def _file(self, place: str, path: str, state: os.stat_result, limit: int = -1) -> None:
        if not stat.S_ISREG(state.st_mode):
            self.left.append((path, "it is neither a file nor a folder"))
            return
        size = min(state.st_size, limit) if limit >= 0 else state.st_size
        entry = Entry(path, "f", size, state.st_mtime_ns, _mode(state), "")
        self._take(entry, place)

    def _link(self, place: str, path: str, state: os.stat_result, depth: int) -> None:
        try:
            leads_to = os.readlink(place)
        except OSError as error:
            self.left.append((path, reason(error)))
            return
        if leads_inside(path, leads_to, depth):
            self._links.append((Entry(path, "l", 0, state.st_mtime_ns, 0, leads_to), place))
        else:
            self.left.append((path, "it is a link that leads out of the folder"))


def _mode(state: os.stat_result) -> int:
    return state.st_mode & 0o777


def expanded(path: str) -> str:
    """A path of a person, with `~` and a variable at its beginning."""
    if path.startswith("$"):
        name = path[1:].split("/")[0].strip("{}")
        value = os.environ.get(name, "")
        if not value:
            raise ValueError(f"${name} is not set there")
        path = "/".join([value, *path.split("/")[1:]])
    return os.path.expanduser(path) or "."


def matching(path: str) -> list[str]:
    """The paths that a person means: this one, or what matches it as a pattern."""
    path = expanded(path)
    if os.path.lexists(path) or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(path)) or [path]
