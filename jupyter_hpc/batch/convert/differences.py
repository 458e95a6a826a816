"""How a line of the notebook reads in the script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher

from jupyter_hpc.batch.convert.report import Change

#: More of a place than so many lines is not shown: it is in the script.
_MAX_LINES = 12


def with_after(
    changes: Iterable[Change], sources: Mapping[int, str], codes: Mapping[int, str]
) -> list[Change]:
    """The changes with what their lines became; as they are where that is not known.

    `sources` and `codes` are the cells by number: as they stand in the notebook, and in the
    script. What another notebook brought in (`%run`) has lines of its own.
    """
    pairs = {
        number: line_pairs(source, codes[number])
        for number, source in sources.items()
        if number in codes
    }
    found = []
    for change in changes:
        before, after = pairs.get(change.cell, {}).get(change.line, ("", ""))
        # A line of a cell, and not of a notebook that this one runs.
        if before and _first_line(change.source) in before:
            change = replace(change, before=before, after=after)
        found.append(change)
    return found


def line_pairs(source: str, code: str) -> dict[int, tuple[str, str]]:
    """For each line that differs, counted from 1: the lines at that place, before and after."""
    before, after = source.splitlines(), code.splitlines()
    pairs: dict[int, tuple[str, str]] = {}
    for kind, first, last, start, end in SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind in ("equal", "insert"):
            continue
        if last - first == end - start:
            for offset in range(last - first):
                pairs[first + offset + 1] = (before[first + offset], after[start + offset])
            continue
        block = (_bounded(before[first:last]), _bounded(after[start:end]))
        pairs |= dict.fromkeys(range(first + 1, last + 1), block)
    return pairs


def _bounded(lines: list[str]) -> str:
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], "…"]
    return "\n".join(lines)


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
