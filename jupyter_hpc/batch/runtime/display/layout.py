"""Lays out the text of a value as a notebook does: groups that do not fit are broken,
outer ones first. Objects that describe themselves (`_repr_pretty_`) write to it."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

WIDTH = 79
MAX_ITEMS = 1000


class _Group:
    """Pieces of text that stand on one line together or are broken together."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.broken = False
        #: Its places for a new line that are not yet written.
        self.waiting: collections.deque[_Break] = collections.deque()


class _Break:
    """A place that becomes a new line if its group is broken."""

    def __init__(self, blank: str, indent: int, group: _Group) -> None:
        self.blank, self.indent, self.group = blank, indent, group
        group.waiting.append(self)


class Layout:
    """Takes text, groups and places for new lines, and gives the lines that fit."""

    max_width = WIDTH
    max_seq_length = MAX_ITEMS
    verbose = False

    def __init__(self) -> None:
        self.indentation = 0
        self._out: list[str] = []
        self._column = 0
        #: What follows the first place for a new line of which nothing is decided yet.
        self._held: collections.deque[str | _Break] = collections.deque()
        self._held_width = 0
        root = _Group(0)
        self._open = [root]
        #: Groups that could be broken, by depth.
        self._queue: list[list[_Group]] = [[root]]

    def text(self, text: str) -> None:
        """Add text that stays on its line."""
        if not self._held:
            self._out.append(text)
            self._column += len(text)
            return
        self._held.append(text)
        self._held_width += len(text)
        self._break_what_does_not_fit()

    def breakable(self, sep: str = " ") -> None:
        """Add a place for a new line; `sep` stands there if none is needed."""
        group = self._open[-1]
        if group.broken:
            self._new_line()
            return
        self._held.append(_Break(sep, self.indentation, group))
        self._held_width += len(sep)
        self._break_what_does_not_fit()

    def break_(self) -> None:
        """Add a new line in any case; the outermost group that can be is broken with it."""
        group = self._next_to_break()
        if group is not None:
            self._break(group)
        self._new_line()

    def begin_group(self, indent: int = 0, open: str = "") -> None:
        if open:
            self.text(open)
        group = _Group(self._open[-1].depth + 1)
        self._open.append(group)
        while len(self._queue) <= group.depth:
            self._queue.append([])
        self._queue[group.depth].append(group)
        self.indentation += indent

    def end_group(self, dedent: int = 0, close: str = "") -> None:
        self.indentation -= dedent
        group = self._open.pop()
        if not group.waiting:
            self._forget(group)
        if close:
            self.text(close)

    @contextlib.contextmanager
    def group(self, indent: int = 0, open: str = "", close: str = "") -> Iterator[None]:
        self.begin_group(indent, open)
        try:
            yield
        finally:
            self.end_group(indent, close)

    @contextlib.contextmanager
    def indent(self, indent: int) -> Iterator[None]:
        self.indentation += indent
        try:
            yield
        finally:
            self.indentation -= indent

    def items(self, values: Iterable[Any]) -> Iterator[Any]:
        """The values, with commas and places for new lines between them, up to a limit."""
        for number, value in enumerate(values):
            if number:
                self.text(",")
                self.breakable()
            if number >= self.max_seq_length:
                self.text("...")
                return
            yield value

    def flush(self) -> None:
        """Write what was held back."""
        while self._held:
            self._write_first()

    def lines(self) -> str:
        """All that was added, laid out."""
        self.flush()
        return "".join(self._out)

    def _break_what_does_not_fit(self) -> None:
        while self._column + self._held_width > self.max_width:
            group = self._next_to_break()
            if group is None:
                return
            self._break(group)

    def _break(self, group: _Group) -> None:
        while group.waiting:
            self._write_first()
        while self._held and isinstance(self._held[0], str):
            self._write_first()

    def _write_first(self) -> None:
        piece = self._held.popleft()
        text = piece if isinstance(piece, str) else piece.blank
        self._held_width -= len(text)
        if isinstance(piece, _Break):
            piece.group.waiting.popleft()
            if piece.group.broken:
                self._out.append("\n" + " " * piece.indent)
                self._column = piece.indent
                return
            if not piece.group.waiting:
                self._forget(piece.group)
        self._out.append(text)
        self._column += len(text)

    def _new_line(self) -> None:
        self.flush()
        self._out.append("\n" + " " * self.indentation)
        self._column = self.indentation

    def _next_to_break(self) -> _Group | None:
        """The outermost group with a place for a new line; it is broken from now on."""
        for groups in self._queue:
            for number, group in enumerate(reversed(groups)):
                if group.waiting:
                    # Counted from the other end, as IPython does: another group may leave
                    # the queue in its place, which shows in some deep containers.
                    del groups[number]
                    group.broken = True
                    return group
            for group in groups:
                group.broken = True
            groups.clear()
        return None

    def _forget(self, group: _Group) -> None:
        with contextlib.suppress(ValueError):
            self._queue[group.depth].remove(group)
