"""The keys of a profile as a JSON schema, for editors that complete and check TOML by one."""

from __future__ import annotations

from typing import Any

from jupyter_hpc.clusters.keys import CONFIDENCE, KEYS, NAMED_SECTIONS, SECTIONS, Key
from jupyter_hpc.clusters.needs import needed_by

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}


def _whole(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


#: Kind of a key -> what an editor can check; the rest is checked when the profile is read.
_KINDS: dict[str, dict[str, Any]] = {
    "text": _TEXT,
    "word": {"type": "string", "pattern": r"^[^\s-]\S*$"},
    "words": {"type": "array", "items": {"type": "string", "pattern": r"^[^\s-]\S*$"}},
    "profile": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*$"},
    "flag": {"type": "boolean"},
    "count": _whole(1, 1_000_000),
    "cpus": {"anyOf": [_whole(1, 1_000_000), {"const": "cluster"}]},
    "amount": _whole(0, 1_000_000),
    "files": _whole(1, 1_000_000_000_000),
    "port": _whole(1, 65535),
    "seconds": _whole(1, 86400),
    "time": {
        "type": "string",
        "pattern": r"^(\d+(:[0-5]?\d){0,2}|\d+-\d+(:[0-5]?\d){0,2}|UNLIMITED)$",
    },
    "memory": {"type": "string", "pattern": r"^(\d+(\.\d+)?[KMGTkmgt]?|cluster)$"},
    "size": {"type": "string", "pattern": r"^\d+(\.\d+)?[KMGTPkmgtp]$"},
    "duration": {"type": "string", "pattern": r"^(\d+[smhd])+$"},
    "hosts": {"anyOf": [_TEXT, {**_TEXTS, "minItems": 1}]},
    "jumps": _TEXTS,
    "path": _TEXT,
    "option": _TEXT,
    "options": {"type": "array", "items": {"type": "string", "pattern": "^--?[A-Za-z0-9]"}},
    "counts": {"type": "array", "items": {"type": ["string", "integer"]}},
    "argv": _TEXTS,
    "lines": _TEXTS,
    "variables": _TEXTS,
    "pattern": _TEXT,
    "quantity": {"type": "number"},
    "rates": {"type": "object"},
}


def profile_schema() -> dict[str, Any]:
    """The schema of one profile file."""
    properties = _properties("")
    for section in SECTIONS:
        if section == "confidence":
            words = {"enum": list(CONFIDENCE)}
            properties[section] = {"type": "object", "additionalProperties": words}
            continue
        table = {
            "type": "object",
            "additionalProperties": False,
            "properties": _properties(section),
        }
        named = {"type": "object", "additionalProperties": table}
        properties[section] = named if section in NAMED_SECTIONS else table
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Cluster profile of jupyter-hpc",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _properties(section: str) -> dict[str, Any]:
    return {key.name: _property(key) for key in KEYS if key.section == section}


def _property(key: Key) -> dict[str, Any]:
    shape: dict[str, Any]
    if key.kind == "choice":
        shape = {"enum": list(key.choices)}
    elif key.kind == "choices":
        shape = {"type": "array", "items": {"enum": list(key.choices)}}
    else:
        shape = dict(_KINDS[key.kind])
    if key.default not in (None, (), ""):
        shape["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    site = needed_by(key)
    return {"description": f"{key.doc} Needed by: {site}." if site else key.doc, **shape}
