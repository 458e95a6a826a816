"""What a person has seen of a notebook before its submit: nothing else is submitted unasked.

Each cell of code, or script, has a mark such as `cell 3:1f0c…`; outputs and texts have none.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Sequence

from jupyter_hpc.batch.submit.drafts import Draft
from jupyter_hpc.batch.submit.scripts import ScriptsDraft
from jupyter_hpc.errors import ChangedSince
from jupyter_hpc.text import printable

_HASH_CHARACTERS = 16
#: So many places are named.
_MAX_NAMED = 5


def marks(draft: Draft | ScriptsDraft) -> tuple[str, ...]:
    """One for each cell of code, or for each script, in their order."""
    if isinstance(draft, ScriptsDraft):
        return tuple(_mark(each.step.path, each.text) for each in draft.scripts)
    cells = (cell for cell in draft.parsed.cells if cell.kind == "code")
    return tuple(_mark(f"cell {cell.number}", cell.source) for cell in cells)


def _mark(place: str, text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{place}:{digest[:_HASH_CHARACTERS]}"


def check_shown(seen: Sequence[str], draft: Draft | ScriptsDraft) -> None:
    """ChangedSince, which says where, if this is not what was seen."""
    now = marks(draft)
    places = list(_changes(seen, now))
    if not places:
        return
    more = f" and {len(places) - _MAX_NAMED} more" if len(places) > _MAX_NAMED else ""
    raise ChangedSince(
        f"The file has changed since it was shown: {', '.join(places[:_MAX_NAMED])}{more}. "
        "Nothing was submitted.",
        "Look at it as it is now, and submit it again.",
    )


def _changes(seen: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """The places that differ, as they are called now."""
    before = [mark.rpartition(":") for mark in seen]
    after = [mark.rpartition(":") for mark in now]
    hashes = [each[2] for each in before], [each[2] for each in after]
    matcher = difflib.SequenceMatcher(None, hashes[0], hashes[1], autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        places = [printable(each[0], 100) for each in after[start:end]]
        gone = [printable(each[0], 100) for each in before[first:last]]
        if kind == "insert":
            yield from (f"{place} is new" for place in places)
        elif kind == "delete":
            yield from (f"what was {place} is gone" for place in gone)
        elif kind == "replace":
            yield from places
            yield from (f"what was {place} is gone" for place in gone[len(places) :])
