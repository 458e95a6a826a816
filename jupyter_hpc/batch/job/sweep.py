"""Sweeps: which values each run of an array gets."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_hpc.batch.convert.parameters.constants import constant
from jupyter_hpc.batch.convert.report import Conversion, Parameter
from jupyter_hpc.batch.runtime.script.parameters import meant, parse
from jupyter_hpc.errors import UsageError

#: Most sites refuse larger arrays.
MAX_RUNS = 1000
#: An error names so many parameters.
MAX_NAMES = 20


def parse_setting(text: str) -> tuple[str, str]:
    """`name=value` of --set."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{text!r} does not set anything.", "Write it as name=value.")
    return name.strip(), value


def parse_sweep(text: str) -> tuple[str, list[str]]:
    """`name=a,b,c` of --sweep; commas inside brackets and quotes do not separate."""
    name, value = parse_setting(text)
    items: list[str] = []
    current, depth, quote = "", 0, ""
    for char in value:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if char == "," and not depth and not quote:
            items.append(current)
            current = ""
        else:
            current += char
    if quote:
        raise UsageError(
            f"--sweep {text!r} has a quote that is not closed.",
            'Write such a value in quotes of the other kind: name="it\'s",other.',
        )
    items = [item.strip() for item in (*items, current) if item.strip()]
    if not items:
        raise UsageError(f"--sweep {text!r} names no values.", "Write it as name=a,b,c.")
    return name, items


def there_are(names: Sequence[str]) -> str:
    """The names to choose from, those that people want most first; many are cut short."""
    if not names:
        return "It has none: write the value as `name = 0.1` into a cell, and use the name."
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"There are: {', '.join(names[:MAX_NAMES])}{more}."


def named(conversion: Conversion, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by the names of the notebook's parameters, which may be given in another case.

    Raises UsageError for a name that is unknown, not clear, or given twice.
    """
    known = [parameter.name for parameter in conversion.parameters]
    found: dict[str, Any] = {}
    for name, value in values.items():
        alike = meant(name, known)
        if not alike:
            raise UsageError(f"The notebook has no parameter {name!r}.", there_are(known))
        if len(alike) > 1:
            raise UsageError(f"{name} may mean {' or '.join(alike)}.", "Write it exactly.")
        own = alike[0]
        if own in found:
            raise UsageError(f"{own} is given twice, in upper and lower case.", "Give it once.")
        found[own] = value
    return found


def typed(conversion: Conversion, name: str, text: Any) -> Any:
    """A value for a parameter, in the type of its default; UsageError if it does not fit."""
    parameter = next(p for p in conversion.parameters if p.name == name)
    if parameter.kind == "secret":
        raise UsageError(
            f"{name} is a secret and is not written into the job's files.",
            f"Put it into the environment variable {name} before you submit.",
        )
    try:
        default = _default(parameter)
    except (ValueError, SyntaxError):
        return text  # only the running notebook knows the type
    try:
        return parse(text, default, name)
    except ValueError as error:
        problem = UsageError(f"{error}.", "Give another value.")
        raise problem.of(f"parameters.{name}") from error


def _default(parameter: Parameter) -> Any:
    """The default as a value, also of `2 ** 10`; ValueError if the code must run to know it."""
    if not parameter.default:
        return ""
    value = constant(ast.parse(parameter.default, mode="eval").body)
    return ast.literal_eval(parameter.default) if value is None else value


def grid(values: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    """Every combination of the given values, the last name changing fastest."""
    if not values:
        return ()
    names = list(values)
    runs = tuple(
        dict(zip(names, combination, strict=True))
        for combination in itertools.product(*(values[name] for name in names))
    )
    if len(runs) > MAX_RUNS:
        raise UsageError(
            f"The sweep has {len(runs)} runs; arrays of more than {MAX_RUNS} are refused.",
            "Sweep fewer values at a time.",
        )
    return runs
