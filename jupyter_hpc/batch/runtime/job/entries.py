"""What is below a folder: files, links and empty folders, each with a state to compare."""

from __future__ import annotations

import os
import stat
from typing import Any


def state_of(path: str) -> tuple[Any, ...]:
    """("file", size, time), ("link", target) or ("folder",); a link is not followed.

    Other things, such as sockets, are ("other",).
    """
    info = os.lstat(path)
    if stat.S_ISREG(info.st_mode):
        return ("file", info.st_size, info.st_mtime_ns)
    if stat.S_ISLNK(info.st_mode):
        return ("link", os.readlink(path))
    return ("folder",) if stat.S_ISDIR(info.st_mode) else ("other",)


def entries_below(folder: str) -> dict[str, tuple[Any, ...]]:
    """Every file and link, and every folder that is empty, by its path in the folder."""
    found: dict[str, tuple[Any, ...]] = {}
    for root, folders, files in os.walk(folder):
        own = os.path.relpath(root, folder)
        names = [*files, *(name for name in folders if os.path.islink(os.path.join(root, name)))]
        for name in names:
            try:
                state = state_of(os.path.join(root, name))
            except OSError:
                continue
            if state[0] != "other":
                found[os.path.normpath(os.path.join(own, name))] = state
        if own != "." and not folders and not files:
            found[own] = ("folder",)
    return found


def size_of(states: dict[str, tuple[Any, ...]]) -> int:
    """The bytes of all files among them."""
    return sum(state[1] for state in states.values() if state[0] == "file")


def as_states(content: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """What JSON has made of states."""
    return {name: tuple(state) for name, state in content.items()}
