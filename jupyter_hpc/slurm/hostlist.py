"""Slurm's short form for lists of hosts: "gcn[41-43,50]", written out.

Understood: several brackets in one name, zero padding, suffixes after a bracket,
lists of names. `scontrol show hostnames` knows the cluster's own rules and is the
better judge where it can be asked; this needs no command.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from jupyter_hpc.errors import UnreadableAnswer
from jupyter_hpc.text import printable

#: More hosts than any job of ours has; a hostile or broken list stops here.
MAX_HOSTS = 65536

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<plain>[^\[\]]+)")
_RANGE = re.compile(r"(?P<low>[0-9]{1,18})(?:-(?P<high>[0-9]{1,18}))?")
_BOX = re.compile(r"[0-9A-Z]+x[0-9A-Z]+")

#: What Slurm prints in place of a list while a job has no nodes.
_NOTHING = frozenset({"", "(null)", "none", "none assigned", "n/a"})


@dataclass(frozen=True)
class _Range:
    low: int
    high: int
    width: int

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self.width}d}" for number in range(self.low, self.high + 1))


def expand(text: str, *, limit: int = MAX_HOSTS) -> list[str]:
    """Every host of the list, in its order; [] for the words that mean "none yet".

    Raises UnreadableAnswer for what is no hostlist, for more than `limit` hosts and
    for the boxes of machines with several dimensions ("bgl[000x133]").
    """
    if text.strip().lower() in _NOTHING:
        return []
    hosts: list[str] = []
    items = _split(text)
    for item in items:
        pieces = [_piece(found, text) for found in _PIECE.finditer(item)]
        total = math.prod(sum(map(len, ranges)) for ranges in pieces if isinstance(ranges, list))
        if len(hosts) + total > limit:
            raise _unreadable(text, f"it names more than {limit} hosts")
        choices = [
            [piece] if isinstance(piece, str) else itertools.chain.from_iterable(piece)
            for piece in pieces
        ]
        hosts.extend("".join(parts) for parts in itertools.product(*choices))
    return hosts


def first(text: str) -> str | None:
    """The first host of the list, where a job's single task runs."""
    return next(iter(expand(text)), None)


def _split(text: str) -> list[str]:
    items = _ITEM.findall(text)
    if ",".join(items) != text or re.search(r"\s", text):
        raise _unreadable(text, "its brackets, commas or blanks do not fit together")
    return items


def _piece(found: re.Match[str], whole: str) -> str | list[_Range]:
    if found["plain"] is not None:
        return found["plain"]
    return [_range(part, whole) for part in found["ranges"].split(",")]


def _range(part: str, whole: str) -> _Range:
    if _BOX.fullmatch(part):
        raise _unreadable(whole, "it uses boxes of a machine with several dimensions (NxM)")
    found = _RANGE.fullmatch(part)
    if not found:
        raise _unreadable(whole, f"{printable(part, 40)!r} is no number and no range")
    low, high = int(found["low"]), int(found["high"] or found["low"])
    if high < low:
        raise _unreadable(whole, f"the range {part} runs backwards")
    return _Range(low, high, len(found["low"]))


def _unreadable(text: str, why: str) -> UnreadableAnswer:
    return UnreadableAnswer(
        f"The host list {printable(text, 120)!r} cannot be read: {why}.",
        "Run `scontrol show hostnames` with it on the cluster to see the names.",
    )
