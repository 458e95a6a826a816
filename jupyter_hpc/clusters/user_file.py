"""The user's own profile of a cluster: made, and given a value, without losing what is there."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir

from jupyter_hpc.clusters.loading import describe, find_file, parse_toml
from jupyter_hpc.clusters.schema import PROFILE_NAME, check_profile
from jupyter_hpc.clusters.toml_text import profile_text, toml_value, with_value, without_value
from jupyter_hpc.errors import ProfileError
from jupyter_hpc.text import printable

#: The first line of files that we write: editors with a TOML language server follow it.
SCHEMA_LINE = "#:schema ../profile.schema.json"


def check_name(name: str) -> str:
    """The name, if a profile can have it; ProfileError otherwise."""
    if not PROFILE_NAME.fullmatch(name):
        raise ProfileError(
            f"{printable(name, 60)!r} cannot be the name of a profile.",
            "Names begin with a letter or digit and go on with a-z, 0-9, '.', '_' and '-'.",
        )
    return name


def user_file(name: str) -> Path:
    """Where the user's own profile of that name is, or would be."""
    return Path(jupyter_config_dir()) / "hpc" / "clusters" / f"{name}.toml"


def write_schema() -> Path:
    """The schema for editors, beside the user's profiles."""
    from jupyter_hpc.clusters.json_schema import profile_schema  # late: seldom written

    path = Path(jupyter_config_dir()) / "hpc" / "profile.schema.json"
    _write(path, json.dumps(profile_schema(), indent=2) + "\n")
    return path


def create(name: str, text: str) -> Path:
    """A new file of the user; ProfileError if there is one, or the text is no TOML."""
    path = user_file(name)
    parse_toml(text, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_schema()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ProfileError(
            f"{path} exists already.", f"Change it: jupyter-hpc clusters edit {name}"
        ) from None
    return path


def ensure(name: str) -> Path:
    """The user's own profile; where there is none, one that builds on the site's or ours."""
    path = user_file(name)
    if path.exists():
        return path
    extends = f'extends = "{name}"\n' if find_file(name) is not None else ""
    hint = f"# What can be changed: jupyter-hpc clusters show {name}\n" if extends else ""
    return create(name, f"{SCHEMA_LINE}\n{extends}{hint}")


def remember(name: str, answers: Mapping[str, Any], *, replace: bool = False) -> Path:
    """Write values, by path ("allocation.partition"), into the user's profile of that name.

    Comments and order of a file that exists stay. Values that are there already stay, too,
    unless `replace` is given. Raises ProfileError with the lines to write by hand where that is
    not possible.
    """
    path = ensure(name)
    try:
        text = path.read_text("utf-8")
        for key, value in answers.items():
            section, _, member = key.partition(".")
            if replace:
                text = without_value(text, section, member)
            text = with_value(text, section, member, value)
        _check(path, text, answers)
        _write(path, text)
    except (OSError, ProfileError) as error:
        reason = error.message if isinstance(error, ProfileError) else str(error.strerror)
        raise ProfileError(
            f"The answer could not be written to {path}: {reason}", by_hand(answers)
        ) from error
    return path


def by_hand(answers: Mapping[str, Any]) -> str:
    """What to write, as one line: `[allocation] partition = "gpu"`."""
    parts = [key.partition(".") for key in answers]
    lines = [
        f"[{section}] {member} = {toml_value(value)}"
        for (section, _, member), value in zip(parts, answers.values(), strict=True)
    ]
    return f"Write there: {', '.join(lines)}"


def _check(path: Path, text: str, answers: Mapping[str, Any]) -> None:
    """The text means what it should; ProfileError otherwise, before anything is written."""
    values = check_profile(parse_toml(text, str(path)), str(path))
    for key, value in answers.items():
        section, _, member = key.partition(".")
        wanted = tuple(value) if isinstance(value, list) else value
        if values.get(section, {}).get(member) != wanted:
            raise ProfileError(f"{key} has another value there.")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def shown(name: str) -> str:
    """The profile with all that it builds on, as TOML with the source of each value."""
    found = describe(name)
    comments = dict(found.origins)
    for key, word in found.profile.confidence.items():
        if key in comments:
            comments[key] = f"{comments[key]}; {word}"
    head = f"{found.profile.shown_title}: every value with where it comes from."
    return profile_text(found.values, comments, head)
