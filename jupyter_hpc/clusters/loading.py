"""Finding, reading and merging profiles."""

from __future__ import annotations

import importlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_core.paths import (
    jupyter_config_dir,
    jupyter_config_path,
    jupyter_data_dir,
    jupyter_path,
)

from jupyter_hpc.clusters.keys import NAMED_SECTIONS, SECTIONS
from jupyter_hpc.clusters.profile import Profile, build
from jupyter_hpc.clusters.schema import PROFILE_NAME, Faults, check_profile, nearest
from jupyter_hpc.clusters.sshhosts import config_hosts
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.text import printable

#: The embedded cluster, whose login host and nodes are this computer.
DEMO_PROFILE = "demo"

#: Folder of the demo cluster; when it is not set, see `demo_folder`.
DEMO_VARIABLE = "JUPYTER_HPC_DEMO"

#: No profile is so large; whoever names another file by mistake is told so at once.
_MAX_BYTES = 1_000_000

_BUILT_IN = Path(__file__).parent / "builtin"
_EXPANSION = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Entry:
    """One profile that can be named; `problem` is set when its file cannot be used."""

    name: str
    source: str
    title: str = ""
    status: str = "active"
    host: str = ""
    successor: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Described:
    """A profile, its values as a file would have them, and the source of each.

    `origins` has the path of every value, such as "login.host" or "storage.home.path".
    """

    profile: Profile
    values: Mapping[str, Any]
    origins: Mapping[str, str]


@dataclass(frozen=True)
class _Resolved:
    values: dict[str, Any]
    origins: dict[str, str]


@dataclass(frozen=True)
class Suggestion:
    """What an unknown name may have meant.

    `names` are existing profiles that look like it; `ssh_host` is set when the name
    is a Host of the SSH configuration, from which a profile can be made: it has none yet.
    """

    names: tuple[str, ...] = ()
    ssh_host: str | None = None


def folders() -> list[Path]:
    """Where profiles are looked for, first wins: the user's, the site's, built in."""
    config = [jupyter_config_dir(), *jupyter_config_path()]
    shared = jupyter_path("hpc", "clusters")
    found = [Path(folder) / "hpc" / "clusters" for folder in config]
    return list(dict.fromkeys([*found, *(Path(folder) for folder in shared), _BUILT_IN]))


def available() -> list[Entry]:
    """Every profile by name, including those whose file has a mistake."""
    names = {
        path.stem
        for folder in folders()
        if folder.is_dir()
        for path in folder.glob("*.toml")
        if PROFILE_NAME.fullmatch(path.stem) and path.is_file()
    }
    return [_entry(name) for name in sorted(names)]


def written() -> list[str]:
    """The names of the profiles that the user wrote, whether they can be used or not."""
    own = Path(jupyter_config_dir()) / "hpc" / "clusters"
    return sorted(path.stem for path in own.glob("*.toml") if PROFILE_NAME.fullmatch(path.stem))


def load(name: str) -> Profile:
    """The profile of that name, resolved.

    Raises ProfileError if there is none (with the nearest names), if a file has an
    unknown key or a bad value (with file, key and what is allowed), or if it names no host.
    """
    profile = describe(name).profile
    if not profile.login.host:
        profile.check_usable()
    return profile


def describe(name: str) -> Described:
    """The profile of that name with where each value comes from; it may lack a login host."""
    _check_name(name)
    path = find_file(name)
    if path is None:
        raise _no_such(name)
    found = _resolved(name, path, ())
    return Described(build(name, _source(path), found.values), found.values, found.origins)


def check_file(path: Path) -> Described:
    """A file that need not lie among the profiles, checked with all that it extends."""
    name = path.stem if PROFILE_NAME.fullmatch(path.stem) else "profile"
    found = _resolved(name, path, ())
    profile = build(name, str(path), found.values)
    with Faults() as faults:
        if profile.status == "active":
            with faults.noted():
                profile.check_usable()
        with faults.noted():
            profile.allocation_for(None, {})
        for preset, chosen in profile.presets.items():
            with faults.noted():
                profile.allocation_for(preset, {}, "connect" if chosen.use == "any" else chosen.use)
    return Described(profile, found.values, found.origins)


def suggest(name: str) -> Suggestion:
    """What an unknown name may have meant."""
    near = nearest(name.lower(), [entry.name for entry in available()])
    offered = name in config_hosts() and find_file(name.lower()) is None
    return Suggestion(tuple(near), name if offered else None)


def create_from_ssh_host(host: str) -> Path:
    """Write a new profile of the user for a Host of the SSH configuration.

    Raises ProfileError when the file exists already or the name cannot be a profile's.
    """
    name = _check_name(host.lower())
    path = Path(jupyter_config_dir()) / "hpc" / "clusters" / f"{name}.toml"
    values = check_profile({"title": host, "login": {"host": host}}, str(path))
    text = f'title = "{values["title"]}"\n\n[login]\nhost = "{values["login"]["host"][0]}"\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ProfileError(f"{path} exists already.", "Edit it, or choose another name.") from None
    return path


def _check_name(name: str) -> str:
    if not PROFILE_NAME.fullmatch(name):
        small = name.lower()
        meant = PROFILE_NAME.fullmatch(small) and find_file(small)
        raise ProfileError(
            f"{printable(name, 60)!r} cannot be the name of a profile.",
            f"Did you mean {small}?"
            if meant
            else "Names begin with a letter or digit and go on with a-z, 0-9, '.', '_' and '-'; "
            "they have at most 64 of them.",
        )
    return name


def _entry(name: str) -> Entry:
    path = find_file(name)
    source = _source(path) if path else ""
    try:
        profile = describe(name).profile
    except ProfileError as error:
        return Entry(name, source, problem=str(error))
    host = profile.login.host[0] if profile.login.host else ""
    return Entry(name, source, profile.title, profile.status, host, profile.successor or "")


def find_file(name: str, after: Path | None = None) -> Path | None:
    """The first file of that name; with `after`, the first one behind that file."""
    paths = [folder / f"{name}.toml" for folder in folders()]
    if after in paths:
        paths = paths[paths.index(after) + 1 :]
    return next((path for path in paths if path.is_file()), None)


def _source(path: Path) -> str:
    return "built in" if path.parent == _BUILT_IN else str(path)


def _resolved(name: str, path: Path, seen: tuple[Path, ...]) -> _Resolved:
    """The checked values of the file with those of the profiles that it extends."""
    where = f"{path.name} (built in)" if path.parent == _BUILT_IN else str(path)
    if path in seen:
        chain = " -> ".join(file.stem for file in (*seen, path))
        raise ProfileError(f"{where}: extends goes in a circle: {chain}.", "Remove one of them.")
    values, parent = _read(path, where)
    base = values.pop("extends", None)
    origin = f"{path.stem}, built in" if path.parent == _BUILT_IN else str(path)
    origins = dict.fromkeys(_paths(values), origin)
    if base is None or parent is None:
        return _Resolved(values, origins)
    inherited = _resolved(base, parent, (*seen, path))
    # What is said anew is no longer as unsure as what it replaces.
    doubts = inherited.values.get("confidence", {})
    inherited.values["confidence"] = {
        key: word for key, word in doubts.items() if key not in origins
    }
    return _Resolved(_merge(inherited.values, values), {**inherited.origins, **origins})


def _read(path: Path, where: str) -> tuple[dict[str, Any], Path | None]:
    """The values of one file, and the file of the profile that it extends."""
    said = read_toml(path, where)
    if path.parent == _BUILT_IN:
        # Ours are written as they are kept, and were checked before they were packed.
        return _expanded(_frozen(said), path, where), _parent(said.get("extends"), path, where)
    values: dict[str, Any] = {}
    parent: Path | None = None
    with Faults() as faults:
        with faults.noted():
            values = _expanded(check_profile(said, where), path, where)
        with faults.noted():
            parent = _parent(said.get("extends"), path, where)
    return values, parent


def _expanded(values: dict[str, Any], path: Path, where: str) -> dict[str, Any]:
    if "ssh_config" in values.get("login", {}):
        values["login"]["ssh_config"] = _expand(values["login"]["ssh_config"], path, where)
    return values


def _parent(base: object, path: Path, where: str) -> Path | None:
    """The file of the profile that is extended; None where none is named."""
    if not isinstance(base, str) or not PROFILE_NAME.fullmatch(base):
        return None
    # A profile may extend the one that it hides: the user's "ulysses" adds to the site's.
    parent = find_file(base, after=path if base == path.stem else None)
    if parent is None:
        near = nearest(base, [file.stem for folder in folders() for file in folder.glob("*.toml")])
        guess = f"Did you mean {near[0]}?" if near else "No profile of that name was found."
        raise ProfileError(f"{where}: extends names {base!r}, which does not exist.", guess)
    return parent


def _frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with its lists as tuples."""
    return {
        name: _frozen(value)
        if isinstance(value, dict)
        else (tuple(value) if isinstance(value, list) else value)
        for name, value in table.items()
    }


def _paths(values: Mapping[str, Any]) -> list[str]:
    """The path of every value: "title", "login.host", "storage.home.path"."""
    found = []
    for section, table in values.items():
        if section == "confidence":
            continue
        if section not in SECTIONS:
            found.append(section)
        elif section in NAMED_SECTIONS:
            found += [f"{section}.{name}.{key}" for name, keys in table.items() for key in keys]
        else:
            found += [f"{section}.{key}" for key in table]
    return found


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables key by key, everything else replaced."""
    merged = dict(base)
    for name, value in over.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if both_tables else value
    return merged


def read_toml(path: Path, where: str) -> dict[str, Any]:
    """What the file says; ProfileError if it cannot be read or is no TOML."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MAX_BYTES:
            raise ProfileError(
                f"{where} is no profile: it is a folder, a device, or very large.",
                "A profile is a text file of some lines.",
            )
        return parse_toml(path.read_bytes().decode("utf-8"), where)
    except FileNotFoundError as error:
        raise ProfileError(
            f"There is no file {where}.",
            "`jupyter-hpc clusters` lists the profiles and their files.",
        ) from error
    except OSError as error:
        raise ProfileError(
            f"{where} cannot be read: {error.strerror}.", "Check who may read it."
        ) from error
    except UnicodeDecodeError as error:
        raise ProfileError(f"{where} is not UTF-8 text.", "Save it as UTF-8.") from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """What the text of a file says; ProfileError if it is no TOML."""
    # The parser of Python 3.11's library is the tomli package on 3.10.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        data: dict[str, Any] = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise ProfileError(
            f"{where} is not valid TOML: {printable(str(error), 200)}.", "Correct that line."
        ) from error
    return data


def _expand(text: str, file: Path, where: str) -> str:
    """The path with `~` and variables replaced; relative ones start at the profile's folder."""
    known = {DEMO_VARIABLE: str(demo_folder()), **os.environ}

    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        if not known.get(name):
            raise ProfileError(
                f"{where}: login.ssh_config uses the variable {name}, which is not set.",
                "Set it, or write the whole path.",
            )
        return known[name]

    return str(file.parent / Path(_EXPANSION.sub(value, text)).expanduser())


def demo_pointer() -> Path:
    """The file in which a demo that runs says where, so that every terminal finds it."""
    return Path(jupyter_data_dir()) / "hpc" / "demo-folder"


def demo_folder() -> Path:
    """Where the demo runs, or else would run if nobody named a folder."""
    pointer = demo_pointer()
    try:
        named = pointer.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, ValueError):
        named = ""
    return Path(named) if os.path.isabs(named) else pointer.with_name("demo")


def _no_such(name: str) -> ProfileError:
    found = suggest(name)
    if name.isdigit():
        hint = (
            "A session goes by the name that `jupyter-hpc status` shows; a job by its number: "
            f"jupyter-hpc cancel {name} --on NAME"
        )
    elif found.ssh_host:
        hint = (
            f"Your SSH configuration knows the host {name}: "
            f'write [login] and host = "{name}" into '
            f"{Path(jupyter_config_dir()) / 'hpc' / 'clusters' / (name + '.toml')} to use it."
        )
    elif found.names:
        hint = f"Did you mean {' or '.join(found.names)}?"
    else:
        names = ", ".join(entry.name for entry in available())
        hint = f"Known profiles: {names}."
    return ProfileError(f"There is no cluster profile called {name!r}.", hint)
