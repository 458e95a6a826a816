"""Text from outside, made safe to show, and durations as people say them."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence

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


def memory_size(megabytes: float) -> str:
    """An amount of memory as people say it: 500 MB, 1.5 GB, 64 GB."""
    gigabytes = megabytes / 1024
    if gigabytes < 1:
        return f"{megabytes:.0f} MB"
    return f"{gigabytes:.0f} GB" if gigabytes >= 10 else f"{gigabytes:.1f} GB"


#: A longer word of a command is a script, or data.
_MAX_WORD_CHARACTERS = 120


def command_words(argv: Sequence[str], limit: int = 400) -> str:
    """A command for a log: as it would be typed, but a script by its name.

    The name of a script is the comment on its first line. What env(1) sets is left out.
    """
    words = [
        f"<{script_name(word)}>"
        if "\n" in word or len(word) > _MAX_WORD_CHARACTERS
        else shlex.quote(word)
        for word in _without_env(argv)
    ]
    return printable(" ".join(words), limit)


def _without_env(argv: Sequence[str]) -> Sequence[str]:
    if not argv or argv[0] != "env":
        return argv
    rest = list(argv[1:])
    while rest and (rest[0] == "-u" or "=" in rest[0]):
        del rest[: 2 if rest[0] == "-u" else 1]
    return rest


def script_name(text: str) -> str:
    """The comment on a script's first line, else the beginning of that line."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return printable(first.lstrip("#! "), 60)


def data_size(size: float) -> str:
    """An amount of data as people say it, in powers of ten: 512 B, 4.1 kB, 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
