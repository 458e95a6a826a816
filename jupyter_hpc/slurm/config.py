"""The site's own settings of Slurm, as far as they decide what can live there."""

from __future__ import annotations

import re

_LINE = re.compile(r"(?P<key>\w+)\s*= ?(?P<value>.*)")


def config_argv() -> list[str]:
    """Everything the controller was configured with."""
    return ["scontrol", "show", "config"]


def read_config(text: str) -> dict[str, str]:
    """`Key = value` lines as a table; headings and blank lines are passed over."""
    found = (_LINE.fullmatch(line.rstrip()) for line in text.splitlines())
    return {match["key"]: match["value"] for match in found if match}


def inactive_limit(config: dict[str, str]) -> int:
    """Seconds after which an allocation with no process at its command is ended; 0: never.

    salloc --no-shell leaves an allocation without such a process behind.
    """
    number = re.match(r"\d+", config.get("InactiveLimit", ""))
    return int(number[0]) if number else 0
