"""Tables as sacct, sacctmgr and sshare print them: padded, or closed by a separator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jupyter_hpc.demo.slurm.options import BadCommand

Row = TypeVar("Row")


@dataclass(frozen=True)
class Field(Generic[Row]):
    """One column; a negative width is aligned to the left."""

    heading: str
    width: int
    value: Callable[[Row], str]


def chosen_fields(
    text: str,
    known: Mapping[str, Field[Row]],
    refuse: Callable[[str], Exception],
) -> list[Field[Row]]:
    """The fields that a --format names, in any case; "name%30" sets a width."""
    chosen = []
    for word in text.split(","):
        name, percent, width = word.strip().partition("%")
        if not name:
            continue
        field = known.get(name.lower())
        if field is None:
            raise refuse(name)
        if percent and width.lstrip("-").isdigit():
            field = Field(field.heading, int(width), field.value)
        chosen.append(field)
    return chosen


def fields_of(
    command: str, options: Mapping[str, str], default: str, known: Mapping[str, Field[Row]]
) -> list[Field[Row]]:
    """The fields that --format asks for, or the usual ones, with the command's own refusal."""
    return chosen_fields(
        options.get("format", default),
        known,
        lambda name: BadCommand(f'{command}: error: Invalid field requested: "{name}"'),
    )


def listing(fields: Sequence[Field[Row]], rows: Sequence[Row], options: Mapping[str, str]) -> str:
    """The table under the options noheader, parsable, parsable2 and delimiter."""
    table = [[field.value(row) for field in fields] for row in rows]
    heading = [field.heading for field in fields]
    made = []
    if "parsable" in options or "parsable2" in options:
        separator = options.get("delimiter", "|")
        close = separator if "parsable" in options else ""
        if "noheader" not in options:
            table.insert(0, heading)
        made = [separator.join(line) + close for line in table]
    else:
        if "noheader" not in options:
            made.append(_padded(fields, heading))
            made.append("".join("-" * abs(field.width) + " " for field in fields))
        made += [_padded(fields, line) for line in table]
    return "".join(f"{line}\n" for line in made)


def _padded(fields: Sequence[Field[Row]], values: Sequence[str]) -> str:
    text = ""
    for field, value in zip(fields, values, strict=True):
        width = abs(field.width)
        if len(value) > width:
            value = value[: width - 1] + "+"
        text += (value.ljust(width) if field.width < 0 else value.rjust(width)) + " "
    return text
