"""The text form of a value as a notebook shows it: 79 columns, one item per line where
a container does not fit, sets in order."""

from __future__ import annotations

import collections
import contextlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from jupyter_hpc.batch.runtime.display.layout import Layout


def pretty(value: Any) -> str:
    """The text of `value` as the last line of a cell would show it."""
    printer = _Printer()
    printer.pretty(value)
    return printer.lines()


class _Written:
    """Text among the arguments of a call that stands there as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Printer(Layout):
    """Describes values; `_repr_pretty_` methods are given it to describe their own."""

    def __init__(self) -> None:
        super().__init__()
        #: The containers around the value at hand, to notice a circle.
        self.stack: list[int] = []

    def pretty(self, value: Any) -> None:
        cycle = id(value) in self.stack
        self.stack.append(id(value))
        self.begin_group()
        try:
            self._describe(value, cycle)
        finally:
            self.end_group()
            self.stack.pop()

    def _describe(self, value: Any, cycle: bool) -> None:
        for kind in type(value).__mro__:
            known = _KNOWN.get(kind)
            if known is not None:
                known(self, value, cycle)
                return
            own = vars(kind).get("_repr_pretty_") and getattr(kind, "_repr_pretty_", None)
            if callable(own):
                own(value, self, cycle)
                return
            if kind is not object and "__repr__" in vars(kind) and callable(kind.__repr__):
                self.raw(repr(value))
                return
        more = " ..." if cycle else ""
        self.text(f"<{_type_name(type(value))} at 0x{id(value):x}{more}>")

    def raw(self, text: str) -> None:
        """The text that a value has by itself, its new lines kept."""
        with self.group():
            for number, line in enumerate(text.splitlines()):
                if number:
                    self.break_()
                self.text(line)

    def sequence(self, start: str, values: Iterable[Any], end: str) -> None:
        with self.group(len(start), start, end):
            for value in self.items(values):
                self.pretty(value)

    def mapping(self, start: str, value: Any, end: str) -> None:
        with self.group(len(start), start, end):
            for key in self.items(value.keys()):
                self.pretty(key)
                self.text(": ")
                self.pretty(value[key])

    def call(self, name: str, *values: Any, **named: Any) -> None:
        """A call that would make the value: Counter({'a': 1})."""
        start = name + "("
        with self.group(), self.group(len(start), start, ")"):
            for number, (key, value) in enumerate([*(("", v) for v in values), *named.items()]):
                if number:
                    self.text(",")
                    self.breakable()
                if isinstance(value, _Written):
                    self.text(value.text)
                elif key:
                    with self.group(len(key) + 1, key + "="):
                        self.pretty(value)
                else:
                    self.pretty(value)


if TYPE_CHECKING:  # Python 3.8 cannot evaluate it
    _Describe = Callable[[_Printer, Any, bool], None]


def _between(start: str, end: str) -> _Describe:
    def describe(printer: _Printer, value: Any, cycle: bool) -> None:
        if cycle:
            printer.text(start + "..." + end)
            return
        one = isinstance(value, tuple) and len(value) == 1
        printer.sequence(start, value, "," + end if one else end)

    return describe


def _set_between(start: str, end: str) -> _Describe:
    def describe(printer: _Printer, value: Any, cycle: bool) -> None:
        if cycle:
            printer.text(start + "..." + end)
        elif not value:
            printer.text(type(value).__name__ + "()")
        else:
            printer.sequence(start, _ordered(value, printer.max_seq_length), end)

    return describe


def _mapping_between(start: str, end: str) -> _Describe:
    def describe(printer: _Printer, value: Any, cycle: bool) -> None:
        if cycle:
            printer.text("{...}")
        else:
            printer.mapping(start, value, end)

    return describe


def _call_with(arguments: Callable[[Any], tuple[Any, ...]]) -> _Describe:
    """For a type of `collections`: the call of the class with these arguments."""

    def describe(printer: _Printer, value: Any, cycle: bool) -> None:
        given = (_Written("..."),) if cycle else arguments(value)
        printer.call(type(value).__name__, *given)

    return describe


def _deque(printer: _Printer, value: Any, cycle: bool) -> None:
    named = {} if cycle or value.maxlen is None else {"maxlen": value.maxlen}
    printer.call(type(value).__name__, _Written("...") if cycle else list(value), **named)


def _namespace(printer: _Printer, value: Any, cycle: bool) -> None:
    if cycle:
        printer.call("namespace", _Written("..."))
    else:
        printer.call("namespace", **vars(value))


def _super(printer: _Printer, value: Any, cycle: bool) -> None:
    printer.sequence("<super: ", (value.__thisclass__, value.__self__), ">")


def _class(printer: _Printer, value: Any, cycle: bool) -> None:
    own = [m for m in type(value).__mro__ if "__repr__" in vars(m)][:1]
    if own == [type]:
        printer.text(_type_name(value))
    else:
        printer.raw(repr(value))


def _error(printer: _Printer, value: Any, cycle: bool) -> None:
    printer.call(_type_name(type(value)), *value.args)


def _pattern(printer: _Printer, value: Any, cycle: bool) -> None:
    arguments = [_Written("r" + repr(value.pattern).replace("\\\\", "\\"))]
    names = ("IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "UNICODE", "VERBOSE", "DEBUG")
    if value.flags:
        set_ = (name for name in names if value.flags & getattr(re, name))
        arguments.append(_Written("|".join("re." + name for name in set_)))
    printer.call("re.compile", *arguments)


def _function(printer: _Printer, value: Any, cycle: bool) -> None:
    name = getattr(value, "__qualname__", getattr(value, "__name__", "?"))
    module = getattr(value, "__module__", None)
    if module and module != "builtins":
        name = f"{module}.{name}"
    with contextlib.suppress(ValueError, TypeError):
        name += str(inspect.signature(value))
    printer.text(f"<function {name}>")


def _ordered(values: Any, most: int) -> Iterable[Any]:
    if len(values) >= most:
        return list(values)
    try:
        return sorted(values)
    except Exception:
        try:
            return sorted(values, key=str)
        except Exception:
            return list(values)


def _type_name(kind: type) -> str:
    module = getattr(kind, "__module__", None)
    name = str(getattr(kind, "__qualname__", kind))
    return name if module in (None, "builtins") else f"{module}.{name}"


#: Types whose values are laid out here, whatever their own text is.
_KNOWN: dict[type, _Describe] = {
    list: _between("[", "]"),
    tuple: _between("(", ")"),
    set: _set_between("{", "}"),
    frozenset: _set_between("frozenset({", "})"),
    dict: _mapping_between("{", "}"),
    types.MappingProxyType: _mapping_between("mappingproxy({", "})"),
    type(os.environ): _mapping_between("environ{", "}"),
    collections.defaultdict: _call_with(lambda value: (value.default_factory, dict(value))),
    collections.OrderedDict: _call_with(lambda value: (list(value.items()),) if value else ()),
    collections.Counter: _call_with(lambda value: (dict(value.most_common()),) if value else ()),
    collections.UserList: _call_with(lambda value: (value.data,)),
    collections.deque: _deque,
    types.SimpleNamespace: _namespace,
    super: _super,
    type: _class,
    types.FunctionType: _function,
    types.BuiltinFunctionType: _function,
    BaseException: _error,
    re.Pattern: _pattern,
}


def precision(text: str = "") -> str:
    """`%precision`: floats are shown with so many digits, or in a format of their own."""
    form, digits = (text, None) if "%" in text else (f"%.{text}f", text)
    if not text:
        form, digits = "%r", "8"
    form % 3.14159  # what is no format fails here and not later

    def describe(printer: _Printer, value: Any, cycle: bool) -> None:
        printer.text(form % value)

    _KNOWN[float] = describe
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        _KNOWN[numpy.float64] = describe
        if digits is not None:
            numpy.set_printoptions(precision=int(digits))
    return form
