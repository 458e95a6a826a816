"""Files of the notebook that runs only have links to: whether they were changed all the same."""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

#: So many files are remembered one by one; in further folders times are compared.
_MAX_WATCHED = 20_000
#: Such folders are looked through for so long at the end.
_LOOK_SECONDS = 10.0


def watch(
    targets: dict[str, list[int]], begun: float, patterns: Iterable[str] = ()
) -> dict[str, Any]:
    """The state of everything that links lead to, to be compared at the end.

    `targets` are files with their states, and folders and files that are not there yet, which
    have none; `patterns` are paths that the run may write by their full name.
    """
    targets = {**{path: linked_state(path) for path in _matching(patterns)}, **targets}
    files = {target: state for target, state in targets.items() if state}
    large: list[str] = []
    folders = [target for target, state in targets.items() if not state]
    for target in folders:
        found: dict[str, list[int]] = {}
        for file in _files(target):
            found[os.fspath(file)] = linked_state(file)
            if len(files) + len(found) > _MAX_WATCHED:
                large.append(target)
                found = {}
                break
        files.update(found)
    watched = [target for target in folders if target not in large]
    return {
        "files": files,
        "folders": watched,
        "large": large,
        "begun": begun,
        "patterns": [*patterns],
    }


def clock_of(folder: str) -> float:
    """What time it is on the disk of a folder, which may differ from the clock of the node."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


class Changes(NamedTuple):
    """Paths that were changed, made or deleted, and folders that were not looked through."""

    #: A folder, with a slash at its end, stands for names that were made or deleted in it.
    found: list[str]
    unfinished: list[str]


def changed(before: dict[str, Any]) -> Changes:
    """What was changed, made or deleted since."""
    found = []
    for path, state in before["files"].items():
        if linked_state(path) != state:
            found.append(path)
    for folder in before["folders"]:
        paths = [os.fspath(file) for file in _files(folder)]
        found += [path for path in paths if path not in before["files"]]
    end = time.monotonic() + _LOOK_SECONDS
    unfinished: list[str] = []
    for folder in before["large"]:
        newer, finished = _newer(folder, before["begun"], end)
        found += newer
        unfinished += [] if finished else [folder]
    found += [path for path in _matching(before.get("patterns", ())) if path not in before["files"]]
    return Changes(sorted(set(found)), unfinished)


def _newer(top: str, begun: float, end: float) -> tuple[list[str], bool]:
    """What of a folder is newer, and whether all was looked at until `end`.

    Of a file that was deleted, the time of its folder tells.
    """
    found: list[str] = []
    folders = [top]
    while folders:
        folder = folders.pop()
        explained = False
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    newer = entry.stat(follow_symlinks=False).st_ctime > begun
                    if entry.name == "__pycache__":
                        explained = explained or newer
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif newer:
                        found.append(entry.path)
                        explained = True
                if time.monotonic() > end:
                    return found, False
            if not explained and os.stat(folder).st_mtime > begun:
                found.append(folder + "/")
    return found, True


def _matching(patterns: Iterable[str]) -> list[str]:
    """The files that the patterns stand for, up to a limit."""
    found: list[str] = []
    for pattern in patterns:
        for path in glob.iglob(glob.escape(pattern).replace("[*]", "*")):
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(path)
            if len(found) >= _MAX_WATCHED:
                return found
    return found


def linked_state(file: str | os.DirEntry[str]) -> list[int]:
    """Size, time and number of a file; [] if it is gone."""
    try:
        info = os.stat(file) if isinstance(file, str) else file.stat()
    except OSError:
        return []
    return [info.st_size, info.st_mtime_ns, info.st_ino]


def _files(target: str) -> Iterator[str | os.DirEntry[str]]:
    """The file that a link leads to, or the files of a folder, whose own links are not followed.

    What Python compiles beside a module is nobody's result.
    """
    if not os.path.isdir(target):
        yield target
        return
    folders = [target]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as found:
            for entry in found:
                if entry.is_symlink():
                    continue
                if not entry.is_dir():
                    yield entry
                elif entry.name != "__pycache__":
                    folders.append(entry.path)
