"""Values that can be set from outside: --set name=value, a file, or the environment.

A name counts in upper and lower case, as long as it is clear which parameter is meant.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.state import RUN

#: The values that were asked for, by the name of the parameter.
_SETTINGS: dict[str, Any] = {}
#: Those of them that have been read as values of the type of the default.
_CHECKED: set[str] = set()


_HOW = """\
Set one with --set NAME=VALUE, in a JSON file for --parameters, or as a variable of the
environment; upper and lower case are the same. --set wins over the file, and the file
over the environment. A value has the type of the default."""


class _Unknown:
    """The default of a parameter that only the running notebook can compute."""


def _fail(message: str) -> NoReturn:
    sys.stdout.flush()
    print(f"{os.path.basename(RUN.script)}: {message}", file=sys.stderr, flush=True)
    raise SystemExit(2)


def parse(text: Any, default: Any, name: str) -> Any:
    """`text` as a value of the type of `default`; anything else is a ValueError."""
    if not isinstance(text, str):
        return _fitting(text, default, name)
    if isinstance(default, bool):
        lower = text.strip().lower()
        if lower in ("true", "1", "yes", "on"):
            return True
        if lower in ("false", "0", "no", "off"):
            return False
        raise ValueError(f"{name} must be true or false, not {text!r}")
    if isinstance(default, str):
        return text
    if isinstance(default, (int, float)):
        kind = type(default)
        try:
            return kind(text.strip())
        except ValueError:
            words = "a whole number" if kind is int else "a number"
            raise ValueError(f"{name} must be {words}, not {text!r}") from None
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        if default is None:
            return text
        raise ValueError(f"{name} cannot be read from {text!r}") from None
    return _fitting(value, default, name)


def _fitting(value: Any, default: Any, name: str) -> Any:
    if default is None:
        return value
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool):
        return value
    words = "{} must be of type {}, not {!r}"
    raise ValueError(words.format(name, type(default).__name__, value))


def meant(name: str, names: Iterable[str]) -> list[str]:
    """The parameters that a name can mean: itself, else those that differ only by case."""
    known = list(names)
    return [name] if name in known else [own for own in known if own.lower() == name.lower()]


def _arguments(argv: list[str]) -> tuple[list[tuple[str, str]], str | None, list[str]]:
    settings: list[tuple[str, str]] = []
    file: str | None = None
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        option, equals, value = word.partition("=")
        if option in ("--set", "--parameters"):
            if not equals:
                value = next(words, "")
            if option == "--parameters":
                file = value
                continue
            name, equals, text = value.partition("=")
            if not equals or not name.strip():
                _fail(f"--set needs name=value, not {value!r}")
            settings.append((name.strip(), text))
        else:
            rest.append(word)
    return settings, file, rest


def _from_environment(names: Iterable[str], closed: Any) -> dict[str, tuple[Any, str]]:
    """What the environment asks for; the exact name comes before one in another case."""
    known = list(names)
    found = {
        name: (os.environ[name], "the environment")
        for name in known
        if name in os.environ and name not in closed
    }
    lower = {name.lower() for name in known}
    others = [name for name in os.environ if name.lower() in lower and name not in known]
    for variable in sorted(set(others) - set(closed)):
        alike = meant(variable, known)
        warning = f"warning: the variable {variable} of the environment differs only by case from"
        if len(alike) > 1 or alike[0] in found:
            log("{} {} and is not used".format(warning, " and ".join(alike)))
            continue
        log(f"{warning} the parameter {alike[0]}")
        found[alike[0]] = (os.environ[variable], f"the variable {variable} of the environment")
    return found


def _from_file(file: str, names: Iterable[str]) -> dict[str, tuple[Any, str]]:
    try:
        with open(file, encoding="utf-8") as handle:
            content = json.load(handle)
    except (OSError, ValueError) as error:
        _fail(f"the parameter file cannot be read: {error}")
    found: dict[str, tuple[Any, str]] = {}
    for name, value in content.items():
        own = _known(name, names)
        if own in found:
            _fail(f"the parameter file sets {own} twice, in upper and lower case")
        found[own] = (value, file)
    return found


def _known(name: str, names: Iterable[str]) -> str:
    alike = meant(name, names)
    if not alike:
        _fail("no parameter {}; there are: {}".format(name, ", ".join(names) or "none"))
    if len(alike) > 1:
        _fail("{} may mean {}; write it exactly".format(name, " or ".join(alike)))
    return alike[0]


def read_settings(
    defaults: dict[str, Any], not_from_environment: Any = (), about: dict[str, str] | None = None
) -> None:
    """Collect and check all settings before the first cell runs, and log the overrides.

    `defaults` names the parameters; `...` stands for a default that is computed. The
    command line wins over the parameter file, and that over the environment, of which
    the variables in `not_from_environment` are not read. `about` is told by --help.
    """
    settings, file, rest = _arguments(sys.argv[1:])
    if rest[:1] in (["--help"], ["-h"]):
        print(_help(defaults, about or {}))
        raise SystemExit(0)
    if rest:
        _fail("unknown arguments {}; use --set name=value, or --help".format(" ".join(rest)))
    sys.argv[1:] = []
    asked = _from_environment(defaults, not_from_environment)
    if file:
        asked.update(_from_file(file, defaults))
    asked.update((_known(name, defaults), (text, "--set")) for name, text in settings)
    for name, (value, source) in asked.items():
        default = _Unknown if defaults[name] is ... else defaults[name]
        try:
            # Text stays text until the default, and with it the type, is known.
            _SETTINGS[name] = value if default is _Unknown else parse(value, default, name)
            if default is not _Unknown:
                _CHECKED.add(name)
        except ValueError as error:
            _fail(f"{error} (from {source})")
        was = "" if default is _Unknown else f" (notebook: {default!r})"
        log(f"parameter {name} = {_SETTINGS[name]!r}{was}, from {source}")


def _help(defaults: dict[str, Any], about: dict[str, str]) -> str:
    """What --help prints: each parameter with its type, its default and its cell."""
    rows = [("name", "type", "default", "where")]
    for name in {**defaults, **about}:
        kind, default = "secret", ""
        if name in defaults:
            computed = defaults[name] is ...
            kind = "any" if computed else type(defaults[name]).__name__
            default = "computed" if computed else repr(defaults[name])
        rows.append((name, kind, default, about.get(name, "")))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    table = [
        "  {:{}}  {:{}}  {:{}}  {}".format(
            *(row[0], widths[0], row[1], widths[1], row[2], widths[2], row[3])
        ).rstrip()
        for row in rows
    ]
    return "\n".join(
        [
            f"usage: {os.path.basename(RUN.script)} [--set NAME=VALUE]... [--parameters FILE]",
            "",
            f"{RUN.notebook} as a plain script, written by jupyter-hpc.",
            *(["", "Parameters:", *table, ""] if rows[1:] else ["It has no parameters."]),
            *(_HOW.splitlines() if defaults else ()),
        ]
    )


def parameter(name: str, default: Any) -> Any:
    """The value that was asked for, or the one in the notebook."""
    if name not in _SETTINGS:
        return default
    value = _SETTINGS[name]
    if name in _CHECKED:
        return value
    try:
        return parse(value, default, name)
    except ValueError as error:
        _fail(str(error))


def settings_so_far() -> dict[str, Any]:
    """The values that were asked for, for a process that is started anew."""
    return {"values": dict(_SETTINGS), "checked": set(_CHECKED)}


def set_settings(settings: dict[str, Any]) -> None:
    """The same in that process."""
    _SETTINGS.update(settings["values"])
    _CHECKED.update(settings["checked"])


def answer(name: str, prompt: Any = "") -> str:
    """The answer to a question of the notebook: nobody is there to type it."""
    if prompt:
        print(prompt, end="")
    if name not in _SETTINGS:
        raise RuntimeError(
            f"Cell {RUN.cell} of {RUN.notebook} asks for input. Give the answer with "
            f"--set {name}=... or the environment variable {name}."
        )
    value = str(_SETTINGS[name])
    print()
    return value


def secret(name: str, *_: Any, **__: Any) -> str:
    """A password, key or token; taken from the environment only."""
    value = os.environ.get(name)
    if value is None:
        raise RuntimeError(
            f"Cell {RUN.cell} of {RUN.notebook} asks for a secret. Put it into the "
            f"environment variable {name} of the job."
        )
    return value
