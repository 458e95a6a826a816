"""From values to JSON: dataclasses become objects, everything else stays what it is."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from jupyter_hpc.errors import HpcError


class Encoded:
    """A piece of JSON that has been encoded before and is put in as it is."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


def problem_of(error: HpcError | None) -> dict[str, str] | None:
    """The JSON form of an error: what happened, and what to do next."""
    return None if error is None else {"message": error.message, "hint": error.hint}


def encode(value: Any) -> bytes:
    """`value` as compact JSON in UTF-8."""
    pieces: list[bytes] = []

    def stand_in(piece: Encoded) -> object:
        pieces.append(piece.text)
        return {_MARK: len(pieces) - 1}

    text = json.dumps(to_json(value), separators=(",", ":"), default=stand_in).encode()
    for number, piece in enumerate(pieces):
        text = text.replace(json.dumps({_MARK: number}, separators=(",", ":")).encode(), piece, 1)
    return text


#: Stands in for an encoded piece. No text can look like it, since quotes are escaped there.
_MARK = "encoded"


def to_json(value: Any) -> Any:
    """The JSON form of a value made of dataclasses, mappings, sequences and scalars.

    Not a number and infinity have no JSON form and become null, so that one odd
    reading cannot make a whole answer unreadable for a browser.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Encoded):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_json(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item) for item in value]
    if isinstance(value, Enum):
        return to_json(value.value)
    if isinstance(value, HpcError):
        return problem_of(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
