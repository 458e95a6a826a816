"""Profiles as TOML text: written whole, or a value put into a file that a person wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.clusters.keys import NAMED_SECTIONS, SECTIONS

_BARE = re.compile(r"[A-Za-z0-9_-]+")

#: Longer lists get a line for each entry.
_MAX_LINE = 96


def toml_value(value: Any) -> str:
    """One value; texts are those of a profile, which hold no control characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, (list, tuple)):
        items = [toml_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) <= _MAX_LINE else "[\n    " + ",\n    ".join(items) + ",\n]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    text = json.dumps(str(value), ensure_ascii=False)
    # What a terminal or an editor would obey instead of showing it.
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in text)


def toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def profile_text(
    values: Mapping[str, Any], comments: Mapping[str, str] | None = None, head: str = ""
) -> str:
    """A whole profile; `comments` has a text for values, by path ("login.host"), to follow them."""
    said = comments or {}
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    top = {name: value for name, value in values.items() if name not in SECTIONS}
    lines += _pairs(top, "", said)
    for section in SECTIONS:
        table = values.get(section)
        if not table:
            continue
        if section in NAMED_SECTIONS:
            for name, entry in table.items():
                path = f"{section}.{name}"
                lines += ["", f"[{section}.{toml_key(name)}]", *_pairs(entry, f"{path}.", said)]
        else:
            lines += ["", f"[{section}]", *_pairs(table, f"{section}.", said)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _pairs(table: Mapping[str, Any], prefix: str, comments: Mapping[str, str]) -> list[str]:
    lines = []
    for name, value in table.items():
        comment = comments.get(f"{prefix}{name}")
        tail = f"  # {comment}" if comment else ""
        lines.append(f"{toml_key(name)} = {toml_value(value)}{tail}")
    return lines


def with_value(text: str, section: str, key: str, value: Any) -> str:
    """The text of a file with one more value in [section]; what a person wrote stays.

    The caller makes sure that the key is not there yet, and reads the result back.
    """
    line = f"{toml_key(key)} = {toml_value(value)}"
    header = re.compile(rf"^\s*\[\s*{re.escape(section)}\s*\]\s*(?:#.*)?$", re.MULTILINE)
    found = header.search(text)
    if found:
        return f"{text[: found.end()]}\n{line}{text[found.end() :]}"
    whole = text if not text or text.endswith("\n") else text + "\n"
    return f"{whole}\n[{section}]\n{line}\n".lstrip("\n")
