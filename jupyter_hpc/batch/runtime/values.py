"""The text form of a value, laid out as a notebook shows it: 79 columns, one item per
line where a container does not fit, sets in order."""

from __future__ import annotations

import collections
import contextlib
import inspect
import os
import re
import types
from collections.abc import Iterable
from typing import Any

WIDTH = 79
MOST_ITEMS = 1000

_BREAK = object()  # a blank, or a new line where the group does not fit
_NEWLINE = object()  # a new line in any case


class _Group:
    """Pieces that stand on one line together or are broken together."""

    def __init__(self, indent: int, pieces: list[Any]) -> None:
        self.indent = indent
        self.pieces = pieces


def pretty(value: Any) -> str:
    """The text of `value` as the last line of a cell would show it."""
    layout = _Layout()
    layout.add(_describe(value, ()), 0, 0)
    return "".join(layout.out)


def _head(pieces: Iterable[Any]) -> tuple[int, bool]:
    """Columns up to the first new line, and whether there is one."""
    width = 0
    for piece in pieces:
        if piece is _NEWLINE:
            return width, True
        if piece is _BREAK:
            width += 1
        elif isinstance(piece, _Group):
            inner, ended = _head(piece.pieces)
            width += inner
            if ended:
                return width, True
        else:
            width += len(piece)
    return width, False


def _tail(pieces: list[Any], start: int) -> tuple[int, bool]:
    """Columns that must stay on the line after a piece: all up to the next possible break."""
    width = 0
    for piece in pieces[start:]:
        if piece is _BREAK or piece is _NEWLINE:
            return width, True
        if isinstance(piece, _Group):
            inner, ended = _tail(piece.pieces, 0)
            width += inner
            if ended:
                return width, True
        else:
            width += len(piece)
    return width, False


class _Layout:
    def __init__(self) -> None:
        self.out: list[str] = []
        self.column = 0

    def add(self, group: _Group, indent: int, after: int) -> None:
        """Write the group; `after` columns must still fit behind its end."""
        indent += group.indent
        width, ended = _head(group.pieces)
        # A new line inside, of a value whose text has several, breaks the group as well.
        broken = ended or self.column + width + after > WIDTH
        for index, piece in enumerate(group.pieces):
            if piece is _NEWLINE or (piece is _BREAK and broken):
                self.out.append("\n" + " " * indent)
                self.column = indent
            elif isinstance(piece, _Group):
                follows, ended = _tail(group.pieces, index + 1)
                self.add(piece, indent, follows if ended else follows + after)
            else:
                text = " " if piece is _BREAK else piece
                self.out.append(text)
                self.column += len(text)


def _plain(text: str) -> _Group:
    pieces: list[Any] = []
    for number, line in enumerate(text.splitlines()):
        if number:
            pieces.append(_NEWLINE)
        pieces.append(line)
    return _Group(0, pieces)


def _sequence(start: str, items: list[_Group], end: str, more: bool = False) -> _Group:
    pieces: list[Any] = [start]
    for number, item in enumerate(items):
        if number:
            pieces += [",", _BREAK]
        pieces.append(item)
    if more:
        pieces += [",", _BREAK, "..."]
    pieces.append(end)
    return _Group(len(start), pieces)


def _call(name: str, items: list[_Group]) -> _Group:
    return _sequence(name + "(", items, ")")


def _named(name: str, value: _Group) -> _Group:
    return _Group(len(name) + 1, [name + "=", value])


_Seen = tuple[int, ...]


def _describe(value: Any, seen: _Seen) -> _Group:
    if id(value) in seen:
        return _cycle(value)
    inside = (*seen, id(value))
    for kind in type(value).__mro__:
        described = _known(kind, value, inside)
        if described is not None:
            return described
        if "_repr_pretty_" in vars(kind) and callable(getattr(kind, "_repr_pretty_", None)):
            text = _own_printer(kind, value)
            if text is not None:
                return _plain(text)
        if kind is not object and callable(vars(kind).get("__repr__")):
            return _plain(repr(value))
    return _plain(f"<{_type_name(type(value))} at 0x{id(value):x}>")


def _known(kind: type, value: Any, seen: _Seen) -> _Group | None:
    """The layout of the built-in containers and a few common types."""
    name = type(value).__name__
    if kind in (list, tuple):
        start, end = ("[", "]") if kind is list else ("(", ")")
        items, more = _items(value, seen)
        if kind is tuple and len(value) == 1:
            end = ",)"
        return _sequence(start, items, end, more)
    if kind in (set, frozenset):
        if not value:
            return _plain(name + "()")
        items, more = _items(_ordered(value), seen)
        start, end = ("{", "}") if kind is set else ("frozenset({", "})")
        return _sequence(start, items, end, more)
    if kind is collections.defaultdict:
        return _call(name, [_describe(value.default_factory, seen), _describe(dict(value), seen)])
    if kind is collections.OrderedDict:
        return _call(name, [_describe(list(value.items()), seen)] if value else [])
    if kind is collections.Counter:
        return _call(name, [_describe(dict(value.most_common()), seen)] if value else [])
    if kind is collections.deque:
        items = [_describe(list(value), seen)]
        if value.maxlen is not None:
            items.append(_named("maxlen", _describe(value.maxlen, seen)))
        return _call(name, items)
    if kind is collections.UserList:
        return _call(name, [_describe(value.data, seen)])
    if kind is dict:
        return _mapping("{", value, "}", seen)
    if kind is types.MappingProxyType:
        return _mapping("mappingproxy({", value, "})", seen)
    if kind is type(os.environ):
        return _mapping("environ{", value, "}", seen)
    if kind is types.SimpleNamespace:
        return _call("namespace", [_named(k, _describe(v, seen)) for k, v in vars(value).items()])
    if kind is type:
        own = [m for m in type(value).__mro__ if "__repr__" in vars(m)][:1]
        return _plain(_type_name(value)) if own == [type] else _plain(repr(value))
    if kind in (types.FunctionType, types.BuiltinFunctionType):
        return _plain(_function(value))
    if kind is BaseException:
        return _call(_type_name(type(value)), [_describe(item, seen) for item in value.args])
    if kind is re.Pattern:
        return _pattern(value)
    return None


def _items(values: Iterable[Any], seen: _Seen) -> tuple[list[_Group], bool]:
    items: list[_Group] = []
    for number, item in enumerate(values):
        if number >= MOST_ITEMS:
            return items, True
        items.append(_describe(item, seen))
    return items, False


def _mapping(start: str, value: Any, end: str, seen: _Seen) -> _Group:
    items: list[_Group] = []
    more = False
    for number, key in enumerate(value):
        if number >= MOST_ITEMS:
            more = True
            break
        items.append(_Group(0, [_describe(key, seen), ": ", _describe(value[key], seen)]))
    return _sequence(start, items, end, more)


def _ordered(values: Any) -> list[Any]:
    if len(values) >= MOST_ITEMS:
        return list(values)
    try:
        return sorted(values)
    except Exception:
        try:
            return sorted(values, key=lambda item: (type(item).__name__, str(item)))
        except Exception:
            return list(values)


def _cycle(value: Any) -> _Group:
    for kind, text in ((list, "[...]"), (tuple, "(...)"), (dict, "{...}"), (set, "{...}")):
        if isinstance(value, kind):
            return _plain(text)
    return _plain("...")


def _type_name(kind: type) -> str:
    module = getattr(kind, "__module__", None)
    name = str(getattr(kind, "__qualname__", kind))
    return name if module in (None, "builtins") else f"{module}.{name}"


def _function(value: Any) -> str:
    name = getattr(value, "__qualname__", getattr(value, "__name__", "?"))
    module = getattr(value, "__module__", None)
    if module and module != "builtins":
        name = f"{module}.{name}"
    with contextlib.suppress(ValueError, TypeError):
        name += str(inspect.signature(value))
    return f"<function {name}>"


def _pattern(value: Any) -> _Group:
    text = repr(value.pattern)
    arguments = [_plain("r" + text.replace("\\\\", "\\"))]
    names = ("IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "UNICODE", "VERBOSE", "DEBUG")
    flags = "|".join("re." + name for name in names if value.flags & getattr(re, name))
    if value.flags:
        arguments.append(_plain(flags))
    return _call("re.compile", arguments)


class _Printer:
    """What a `_repr_pretty_` method may use to describe its object."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def text(self, text: str) -> None:
        self.parts.append(text)

    def breakable(self, text: str = " ") -> None:
        self.parts.append(text)

    def break_(self) -> None:
        self.parts.append("\n")

    def pretty(self, value: Any) -> None:
        self.parts.append(pretty(value))

    def group(self, indent: int = 0, open: str = "", close: str = "") -> _PrinterGroup:
        return _PrinterGroup(self, open, close)

    def begin_group(self, indent: int = 0, open: str = "") -> None:
        self.parts.append(open)

    def end_group(self, dedent: int = 0, close: str = "") -> None:
        self.parts.append(close)


class _PrinterGroup:
    def __init__(self, printer: _Printer, start: str, end: str) -> None:
        self.printer, self.start, self.end = printer, start, end

    def __enter__(self) -> None:
        self.printer.text(self.start)

    def __exit__(self, *_: Any) -> None:
        self.printer.text(self.end)


def _own_printer(kind: type, value: Any) -> str | None:
    printer = _Printer()
    try:
        kind._repr_pretty_(value, printer, False)  # type: ignore[attr-defined]
    except Exception:
        return None
    return "".join(printer.parts)
