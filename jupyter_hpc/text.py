"""Text from outside, made safe to show, and durations as people say them."""

from __future__ import annotations

import re
import unicodedata

#: Colours and movements of the cursor, as programs write them to a terminal.
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def printable(text: str, limit: int = 2000) -> str:
    """One line without control, format or bidirectional characters, cut at `limit`.

    Slurm job names, banners and error texts come from other people; an escape
    sequence in one of them must not reach a terminal.
    """
    cleaned = "".join(
        " " if char in "\t\r\n\x0b\x0c\x85\u2028\u2029" else char
        for char in text[: limit * 4]
        if char in "\t\r\n\x0b\x0c\x85"
        or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co")
    )
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def uncoloured(text: str) -> str:
    """The text as it reads on a terminal, without colours."""
    return _TERMINAL.sub("", text)


def printable_lines(text: str, limit: int = 20000) -> str:
    """The same for several lines: line breaks stay, everything else is cleaned."""
    return "\n".join(printable(line) for line in text[:limit].splitlines())


def duration(seconds: float) -> str:
    """A duration as people say it: 45 s, 12 min, 3 h 05 min, 2 d 4 h."""
    total = max(0, int(seconds))
    if total < 90:
        return f"{total} s"
    minutes = total // 60
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
