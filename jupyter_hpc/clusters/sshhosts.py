"""The hosts that the user's SSH configuration names."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

#: Includes of includes end here, as they do in ssh.
_MAX_DEPTH = 16

_WORD = re.compile(r'"([^"]*)"|(\S+)')


def config_hosts(path: Path | None = None) -> list[str]:
    """Names of the Host lines of an SSH configuration, without patterns, in order.

    A missing or unreadable file names no hosts.
    """
    found: list[str] = []
    _collect(path or Path.home() / ".ssh" / "config", found, _MAX_DEPTH)
    return list(dict.fromkeys(found))


def _collect(path: Path, found: list[str], depth: int) -> None:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        words = [quoted or plain for quoted, plain in _WORD.findall(rest)]
        if keyword.lower() == "host":
            found.extend(word for word in words if not set(word) & set("*?!"))
        elif keyword.lower() == "include" and depth:
            for pattern in words:
                absolute = os.path.join(Path.home() / ".ssh", os.path.expanduser(pattern))
                for name in sorted(glob.glob(absolute)):
                    _collect(Path(name), found, depth - 1)
