"""One check per kind of profile value.

Each takes the value as TOML gave it and returns it normalised (lists as tuples), or
raises BadValue with what is wrong and what is allowed. Values reach commands as
arguments, so nothing with a control character passes, and nothing that stands for
an option's value may look like an option itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.slurm.rates import GPU_TYPES, HOURS, PARTITIONS
from jupyter_hpc.text import printable

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*|\[[0-9A-Fa-f:.%a-z]+\]")
_JUMP = re.compile(
    r"(?:[^\s@:/\[\]-][^\s:/\[\]]*@)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[^\s\]]+\])(?::\d{1,5})?"
)
_TIME = re.compile(r"\d+(?::[0-5]?\d){0,2}|\d+-\d+(?::[0-5]?\d){0,2}|UNLIMITED")
_MEMORY = re.compile(r"\d+(?:\.\d+)?[KMGT]?|cluster", re.IGNORECASE)
_DURATION = re.compile(r"(?:\d+[smhd])+")
_DURATION_PART = re.compile(r"(\d+)([smhd])")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROFILE = re.compile(r"[a-z0-9][a-z0-9._-]*")
_WEB_ADDRESS = re.compile(r"https?://[^\s/@?#]+(?:[/?#]\S*)?")
_COUNT = re.compile(r"(?:[^\s:-][^\s:]*:)?[1-9]\d{0,5}n?")
_SIZE = re.compile(r"\d+(?:\.\d+)?[KMGTP]", re.IGNORECASE)
_OPTION = re.compile(r"-[A-Za-z0-9].*|--[A-Za-z0-9].*")

#: A value of cpus and memory: the site derives them from the GPUs, or has its own defaults.
CLUSTER = "cluster"

#: Longest accepted text; longer ones are mistakes or attacks.
_MAX_CHARACTERS = 4000


class BadValue(Exception):
    """A value that does not fit its key: what is wrong, and what would be right."""

    def __init__(self, problem: str, allowed: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.allowed = allowed


def size_bytes(text: str) -> int:
    """Bytes of a size such as `200G`; the letters are binary, as Slurm's are."""
    return int(float(text[:-1]) * 1024 ** (1 + "KMGTP".index(text[-1].upper())))


def duration_seconds(text: str) -> int:
    """Seconds of a duration such as `90m` or `1h30m`."""
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(count) * seconds[unit] for count, unit in _DURATION_PART.findall(text))


def _shown(value: Any) -> str:
    return printable(repr(value), 80)


def _text(value: Any, allowed: str = "a text on one line") -> str:
    if not isinstance(value, str):
        raise BadValue(f"is {_shown(value)}", allowed)
    if len(value) > _MAX_CHARACTERS or not value.isprintable():
        raise BadValue(f"is {_shown(value)}, which has characters that cannot be printed", allowed)
    return value


@dataclass(frozen=True)
class _Matching:
    pattern: re.Pattern[str]
    allowed: str

    def __call__(self, value: Any, choices: tuple[str, ...]) -> str:
        text = _text(value, self.allowed)
        if not self.pattern.fullmatch(text):
            raise BadValue(f"is {_shown(value)}", self.allowed)
        return text


def _word(value: Any, choices: tuple[str, ...]) -> str:
    allowed = "a word that does not begin with '-' and has no blanks"
    text = _text(value, allowed)
    if not text or text.startswith("-") or any(char.isspace() for char in text):
        raise BadValue(f"is {_shown(value)}", allowed)
    return text


@dataclass(frozen=True)
class _Whole:
    low: int
    high: int

    def __call__(self, value: Any, choices: tuple[str, ...]) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.low <= value <= self.high:
            raise BadValue(f"is {_shown(value)}", f"a whole number from {self.low} to {self.high}")
        return int(value)


def _cpus(value: Any, choices: tuple[str, ...]) -> int | str:
    if value == CLUSTER:
        return CLUSTER
    try:
        return _Whole(1, 1_000_000)(value, choices)
    except BadValue as error:
        raise BadValue(error.problem, f"{error.allowed}, or {CLUSTER}") from None


def _flag(value: Any, choices: tuple[str, ...]) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"is {_shown(value)}", "true or false")
    return value


def _choice(value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise BadValue(f"is {_shown(value)}", ", ".join(choices))
    return str(value)


@dataclass(frozen=True)
class _ListOf:
    check: Callable[[Any, tuple[str, ...]], str]
    allowed: str

    def __call__(self, value: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.check(item, choices) for item in _listed(value, self.allowed))


def _hosts(value: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
    allowed = "a host name, or a list of host names"
    items = [value] if isinstance(value, str) else value
    hosts = _ListOf(_Matching(_HOST, allowed), allowed)(items, choices)
    if not hosts:
        raise BadValue("is empty", allowed)
    return hosts


def _argument(value: Any, choices: tuple[str, ...]) -> str:
    text = _text(value, "words, each a text on one line")
    if not text:
        raise BadValue("has an empty word", "words, each a text on one line")
    return text


def _argv(value: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
    allowed = 'a list of words, for example ["jupyter", "lab"]'
    words = _ListOf(_argument, allowed)(value, choices)
    if words and words[0].startswith("-"):
        raise BadValue(f"begins with {_shown(words[0])}", allowed)
    return words


def _option(value: Any, choices: tuple[str, ...]) -> str:
    # A word without a dash would be taken for the command that the allocation runs.
    allowed = 'options, each one word such as "--exclusive" or "--nodelist=n1"'
    text = _text(value, allowed)
    if not _OPTION.fullmatch(text):
        raise BadValue(f"has {_shown(value)}", allowed)
    return text


def _choices(value: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
    return _ListOf(_choice, f"a list of {', '.join(choices)}")(value, choices)


def _counts(value: Any, choices: tuple[str, ...]) -> tuple[str, ...]:
    allowed = 'a list of numbers, "4n" for all multiples of 4, "h200:8n" for those of one type'
    items = [str(item) if type(item) is int else item for item in _listed(value, allowed)]
    return _ListOf(_Matching(_COUNT, allowed), allowed)(items, choices)


def _listed(value: Any, allowed: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise BadValue(f"is {_shown(value)}", allowed)
    return list(value)


def _size_option(value: Any, choices: tuple[str, ...]) -> str:
    return _option(value, choices) if value != "" else ""


def _any_text(value: Any, choices: tuple[str, ...]) -> str:
    return _text(value)


def _web_address(value: Any, choices: tuple[str, ...]) -> str:
    # The address of a webhook is often its only secret, so no message shows it.
    if not isinstance(value, str) or not value.isascii() or not _WEB_ADDRESS.fullmatch(value):
        raise BadValue("is no such address", "https://HOST/PATH, without a user and password")
    return value


def _prices(value: Any, name: str, allowed: str, keys: tuple[str, ...] = ()) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise BadValue(f"has {name} = {_shown(value)}", allowed)
    for key, price in value.items():
        if keys and key not in keys:
            raise BadValue(f"has the key {_shown(key)}", allowed)
        if isinstance(price, bool) or not isinstance(price, (int, float)) or not 0 <= price < 1e9:
            raise BadValue(f"has {key} = {_shown(price)}", allowed)
    return {str(key): float(price) for key, price in value.items()}


def _rates(value: Any, choices: tuple[str, ...]) -> dict[str, Any]:
    hours = ", ".join(HOURS)
    allowed = f"numbers called {hours}; the tables {GPU_TYPES} (by type) and {PARTITIONS} (by name)"
    if not isinstance(value, Mapping):
        raise BadValue(f"is {_shown(value)}", allowed)
    tables = {key: value[key] for key in (GPU_TYPES, PARTITIONS) if key in value}
    plain = {key: price for key, price in value.items() if key not in tables}
    rates: dict[str, Any] = dict(_prices(plain, "rates", allowed, HOURS))
    if GPU_TYPES in tables:
        rates[GPU_TYPES] = _prices(tables[GPU_TYPES], GPU_TYPES, allowed)
    if PARTITIONS in tables:
        if not isinstance(tables[PARTITIONS], Mapping):
            raise BadValue(f"has {PARTITIONS} = {_shown(tables[PARTITIONS])}", allowed)
        rates[PARTITIONS] = {
            str(name): _prices(prices, str(name), allowed, HOURS)
            for name, prices in tables[PARTITIONS].items()
        }
    return rates


def _pattern(value: Any, choices: tuple[str, ...]) -> str:
    allowed = "a regular expression with one group, the number; {account} stands for the account"
    text = _text(value, allowed)
    try:
        groups = re.compile(text.replace("{account}", "x")).groups
    except re.error as error:
        raise BadValue(f"is {_shown(value)}, which is no pattern: {error}", allowed) from None
    if groups != 1:
        raise BadValue(f"is {_shown(value)}, which has {groups} groups", allowed)
    return text


def _quantity(value: Any, choices: tuple[str, ...]) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise BadValue(f"is {_shown(value)}", "a number that is not negative")
    return float(value)


#: Kind of a key -> its check. The names are also the types in the documentation.
CHECKS: dict[str, Callable[[Any, tuple[str, ...]], Any]] = {
    "text": _any_text,
    "word": _word,
    "profile": _Matching(_PROFILE, "the name of a profile"),
    "choice": _choice,
    "choices": _choices,
    "words": _ListOf(_word, 'a list of words, for example ["a100", "h100"]'),
    "counts": _counts,
    "flag": _flag,
    "count": _Whole(1, 1_000_000),
    "amount": _Whole(0, 1_000_000),
    "port": _Whole(1, 65535),
    "seconds": _Whole(1, 86400),
    "time": _Matching(_TIME, "minutes, hours:minutes:seconds or days-hours:minutes:seconds"),
    "cpus": _cpus,
    "memory": _Matching(_MEMORY, "a number with K, M, G or T, for example 32G, or cluster"),
    "size": _Matching(_SIZE, "a number with K, M, G, T or P, for example 200G"),
    "files": _Whole(1, 1_000_000_000_000),
    "duration": _Matching(_DURATION, "numbers with s, m, h or d, for example 90m or 2h"),
    "hosts": _hosts,
    "jumps": _ListOf(_Matching(_JUMP, "[user@]host[:port]"), "a list of [user@]host[:port]"),
    "path": _Matching(re.compile(r".+"), "the path of a file"),
    "option": _size_option,
    "options": _ListOf(_option, 'a list of options, for example ["--exclusive"]'),
    "argv": _argv,
    "lines": _ListOf(_any_text, 'a list of shell lines, for example ["module load cuda"]'),
    "variables": _ListOf(
        _Matching(_VARIABLE, "names of variables"), 'a list of names, for example ["DISPLAY"]'
    ),
    "rates": _rates,
    "pattern": _pattern,
    "quantity": _quantity,
    "address": _web_address,
}
