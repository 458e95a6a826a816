"""The open tabs of a session, and which of them have heard its last word.

A tab, of JupyterLab or of the page, names itself when it asks for the status. When the session is
over, its port waits a moment for those that have not asked since: what a tab has not heard by
then, nobody can tell it any more.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import parse_qs

#: A tab that nobody looks at asks every ten seconds; one that is silent for longer is closed.
OPEN_SECONDS = 15.0

#: How long the port waits for the tabs that have not asked since the end.
TELL_SECONDS = 6.0

#: More than any browser shows; whoever names more is no browser.
_MAX_TABS = 64
_MAX_NAME = 64

_LOOK_SECONDS = 0.05


class Tabs:
    """What each open tab was told last."""

    def __init__(self) -> None:
        self._last_texts: dict[str, tuple[str, float]] = {}  # name -> text, and when

    def asked(self, target: str, text: str) -> None:
        """A request for the status with this target is answered, and `text` is what it says."""
        (name,) = parse_qs(target.partition("?")[2]).get("tab", [""])[:1]
        self._last_texts = dict(self._open())
        if (
            name
            and len(name) <= _MAX_NAME
            and (name in self._last_texts or len(self._last_texts) < _MAX_TABS)
        ):
            self._last_texts[name] = (text, time.monotonic())

    async def all_know(self, text: str) -> bool:
        """Wait until no open tab was told something else last; False if one still was."""
        until = time.monotonic() + TELL_SECONDS
        while any(told != text for _, (told, _) in self._open()):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    def _open(self) -> list[tuple[str, tuple[str, float]]]:
        oldest = time.monotonic() - OPEN_SECONDS
        return [(name, last) for name, last in self._last_texts.items() if last[1] >= oldest]
