"""Values that can be set from outside: --set name=value, a file, or the environment."""

from __future__ import annotations

import ast
import json
import os
import sys
from typing import Any, NoReturn

from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.script.state import RUN

#: The values that were asked for, by the name of the parameter.
_SETTINGS: dict[str, Any] = {}


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


def read_settings(defaults: dict[str, Any], not_from_environment: Any = ()) -> None:
    """Collect and check all settings before the first cell runs, and log the overrides.

    `defaults` names the parameters; `...` stands for a default that is computed. The
    command line wins over the parameter file, and that over the environment.
    """
    settings, file, rest = _arguments(sys.argv[1:])
    if rest:
        _fail("unknown arguments {}; use --set name=value".format(" ".join(rest)))
    sys.argv[1:] = []
    asked: dict[str, tuple[Any, str]] = {}
    for name in defaults:
        if name in os.environ and name not in not_from_environment:
            asked[name] = (os.environ[name], "the environment")
    if file:
        try:
            with open(file, encoding="utf-8") as handle:
                content = json.load(handle)
        except (OSError, ValueError) as error:
            _fail(f"the parameter file cannot be read: {error}")
        asked.update((name, (value, file)) for name, value in content.items())
    asked.update((name, (text, "--set")) for name, text in settings)
    unknown = [name for name in asked if name not in defaults]
    if unknown:
        known = ", ".join(defaults) or "none"
        _fail("no parameter {}; there are: {}".format(", ".join(unknown), known))
    for name, (value, source) in asked.items():
        default = _Unknown if defaults[name] is ... else defaults[name]
        try:
            # Text stays text until the default, and with it the type, is known.
            _SETTINGS[name] = value if default is _Unknown else parse(value, default, name)
        except ValueError as error:
            _fail(f"{error} (from {source})")
        was = "" if default is _Unknown else f" (notebook: {default!r})"
        log(f"parameter {name} = {_SETTINGS[name]!r}{was}, from {source}")


def parameter(name: str, default: Any) -> Any:
    """The value that was asked for, or the one in the notebook."""
    if name not in _SETTINGS:
        return default
    value = _SETTINGS[name]
    try:
        return parse(value, default, name)
    except ValueError as error:
        _fail(str(error))


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
