"""Profiles as TOML text: written whole, or a value put into a file that a person wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.clusters.keys import NAMED_SECTIONS, SECTIONS
from jupyter_hpc.clusters.loading import parse_toml
from jupyter_hpc.errors import ProfileError

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
    found = _head(text, section)
    if found:
        return f"{text[: found.end()]}\n{line}{text[found.end() :]}"
    whole = text if not text or text.endswith("\n") else text + "\n"
    return f"{whole}\n[{section}]\n{line}\n".lstrip("\n")


def without_value(text: str, section: str, key: str) -> str:
    """The text of a file without that key of [section], if it is there."""
    found = _head(text, section)
    if not found:
        return text
    lines = text[found.end() :].split("\n")
    names = {key, f'"{key}"', f"'{key}'"}
    for start, line in enumerate(lines):
        if re.match(r"\s*\[", line):
            break
        if "=" not in line or line.partition("=")[0].strip() not in names:
            continue
        # A list or a long text may go over many lines: up to where it can be read.
        for end in range(start + 1, len(lines) + 1):
            if _can_be_read("\n".join(lines[start:end])):
                return text[: found.end()] + "\n".join(lines[:start] + lines[end:])
    return text


def _head(text: str, section: str) -> re.Match[str] | None:
    head = rf"^[ \t]*\[\s*{re.escape(section)}\s*\][ \t]*(?:#.*)?$"
    return re.search(head, text, re.MULTILINE)


def _can_be_read(text: str) -> bool:
    try:
        parse_toml(text, "")
    except ProfileError:
        return False
    return True
