"""Names that stand for others: `*` is any text within one name, as in a shell."""

from __future__ import annotations

import fnmatch
import re


def matches(name: str, pattern: str) -> bool:
    """Whether a path is what the pattern says, part by part."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(_is_named, parts, wanted))


def lies_below(name: str, folder: str) -> bool:
    """Whether a path is in a folder or in one of its folders."""
    depth = folder.count("/") + 1
    parts = name.split("/")
    return folder == "." or (len(parts) > depth and matches("/".join(parts[:depth]), folder))


def _is_named(part: str, wanted: str) -> bool:
    if "*" not in wanted:
        return part == wanted
    return fnmatch.fnmatchcase(part, re.sub(r"[\[?]", lambda found: f"[{found[0]}]", wanted))
