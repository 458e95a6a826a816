"""The check of a cluster profile against the table of its keys (keys.py)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jupyter_hpc.clusters.keys import CONFIDENCE, KEYS, NAMED_SECTIONS, SECTIONS, Key
from jupyter_hpc.clusters.values import CHECKS, BadValue
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.text import printable

#: Names of profiles: they become file names, job names and folder names.
PROFILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

#: Names of presets and storage areas.
_ENTRY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


#: Options that are called otherwise than their keys.
_OPTIONS = {"memory": "mem"}

_CONFIDENCE_KEY = Key("confidence", "", "choice", "", None, CONFIDENCE)


class Faults:
    """All faults of a profile: noted one by one, raised together at the end of the block."""

    def __init__(self) -> None:
        self._noted: list[ProfileError] = []

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None or not self._noted:
            return
        if len(self._noted) == 1:
            raise self._noted[0]
        lines = "".join(f"\n  {each.message} {each.hint}".rstrip() for each in self._noted)
        raise _SeveralFaults(self._noted, lines)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A fault in this block is noted, and the next block is looked at all the same."""
        try:
            yield
        except _SeveralFaults as error:
            self._noted += error.faults
        except ProfileError as error:
            self._noted.append(error)


class _SeveralFaults(ProfileError):
    """More than one thing is wrong with a profile; the message lists them."""

    def __init__(self, faults: Sequence[ProfileError], lines: str) -> None:
        super().__init__(
            f"There are {len(faults)} faults:{lines}", "Correct them, and check again."
        )
        self.faults = tuple(faults)


def keys_of(section: str) -> dict[str, Key]:
    """The keys of one section, in the order of the table."""
    return {key.name: key for key in KEYS if key.section == section}


def nearest(word: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """The choices that look like `word`, best first."""
    return difflib.get_close_matches(word, sorted(choices), n=count, cutoff=0.6)


def check_profile(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The table of one file with every value checked and normalised.

    Only keys that were given are in the result, so that `extends` can tell a given
    value from a default. Raises ProfileError naming `where` (the file), the key and
    what is allowed, of every fault.
    """
    top = {name: value for name, value in data.items() if name not in SECTIONS}
    checked: dict[str, Any] = {}
    with Faults() as faults:
        with faults.noted():
            checked |= check_keys(keys_of(""), top, "", where, SECTIONS)
        for section in SECTIONS:
            if section in data:
                with faults.noted():
                    checked[section] = _checked_section(section, data[section], where)
    return checked


def _checked_section(section: str, value: Any, where: str) -> dict[str, Any]:
    table = check_table(value, section, where)
    if section not in (*NAMED_SECTIONS, "confidence"):
        return check_keys(keys_of(section), table, f"{section}.", where)
    checked: dict[str, Any] = {}
    with Faults() as faults:
        for name, entry in table.items():
            if section == "confidence":
                with faults.noted():
                    key = _known_path(name, where)
                    shown = f'{where}: confidence."{printable(name, 80)}"'
                    checked[key] = _checked(_CONFIDENCE_KEY, entry, shown)
                continue
            with faults.noted():
                _check_entry_name(name, section, where)
            with faults.noted():
                checked[name] = check_keys(
                    keys_of(section),
                    check_table(entry, f"{section}.{name}", where),
                    f"{section}.{name}.",
                    where,
                )
    return checked


def check_options(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of one section from the command line; errors name the option: `--time is 'x'`."""
    known = keys_of(section)
    return {
        name: _checked(known[name], value, f"--{_OPTIONS.get(name, name).replace('_', '-')}")
        for name, value in values.items()
    }


def check_keys(
    known: Mapping[str, Key],
    values: Mapping[str, Any],
    prefix: str,
    where: str,
    sections: Iterable[str] = (),
) -> dict[str, Any]:
    """The values of one table, checked; `sections` are the tables that may stand beside them."""
    checked: dict[str, Any] = {}
    with Faults() as faults:
        for name, value in values.items():
            with faults.noted():
                key = known.get(name)
                if key is None:
                    raise _unknown(name, prefix, [*known, *sections], where)
                checked[name] = _checked(key, value, f"{where}: {prefix}{name}")
    return checked


def _known_path(path: str, where: str) -> str:
    """A key with its section, as [confidence] names it: "slurm.gpu_flag", "storage.home.size"."""
    section, _, rest = path.partition(".")
    if section in NAMED_SECTIONS:
        rest = rest.rpartition(".")[2]
    known = keys_of(section if rest else "")
    if (rest or section) not in known:
        raise ProfileError(
            f"{where}: confidence speaks of {printable(path, 80)!r}, which is no key.",
            'Write a key with its section, for example "allocation.partition".',
        )
    return path


def _checked(key: Key, value: Any, shown: str) -> Any:
    try:
        return CHECKS[key.kind](value, key.choices)
    except BadValue as error:
        raise ProfileError(f"{shown} {error.problem}.", f"Allowed: {error.allowed}.") from None


def _unknown(name: str, prefix: str, choices: list[str], where: str) -> ProfileError:
    shown = printable(f"{prefix}{name}", 80)
    near = nearest(name, choices, 1)
    guess = f"Did you mean {prefix}{near[0]}? " if near else ""
    return ProfileError(
        f"{where}: there is no key {shown}.", f"{guess}Valid keys: {', '.join(choices)}."
    )


def check_table(value: Any, name: str, where: str) -> Mapping[str, Any]:
    """The value if it is a table; ProfileError says how one is written."""
    if not isinstance(value, Mapping):
        raise ProfileError(
            f"{where}: {printable(name, 80)} must be a table.", f"Write it as [{name}]."
        )
    return value


def _check_entry_name(name: str, section: str, where: str) -> None:
    if not _ENTRY_NAME.fullmatch(name):
        raise ProfileError(
            f"{where}: {section} has an entry called {printable(name, 60)!r}.",
            "Such names are made of letters, digits, '.', '_' and '-'.",
        )
