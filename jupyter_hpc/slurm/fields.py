"""Field tables: one place that asks a Slurm command for columns and reads them back.

A table lists (what to ask for, attribute, reader). The same table writes the
command's format argument and takes its output apart, so the two cannot drift.
Columns are closed by the byte 0x1f, which Slurm passes through untouched: names
with blanks, pipes, commas and even line breaks survive. What `scontrol show` prints
has no columns: it is read as records of `Key=value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

#: ASCII "unit separator". Written literally: Slurm interprets no escapes here.
SEPARATOR = "\x1f"

#: Words that Slurm's commands print for "there is no value".
NO_VALUE = frozenset({"", "n/a", "(null)", "none", "unknown", "not_set", "null"})

#: Variables in which a person may have set filters for their own squeue; they
#: would hide jobs from us. Formats given on the command line win by themselves.
_FILTERS = tuple(
    f"SQUEUE_{name}"
    for name in ("ACCOUNT", "ARRAY", "LICENSES", "NAMES", "PARTITION", "QOS", "STATES", "USERS")
)


#: "123", an array task "35_3", tasks "35_[2-4,9]", a het component "12+1"
_ID = re.compile(r"0*[1-9][0-9]{0,17}(?:_(?:[0-9]{1,18}|\[[0-9,-]{1,4000}\]))?(?:\+[0-9]{1,9})?")

_ENTRY = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9_/:.]*)=")
#: Keys whose value runs to the end of the line, whatever it holds.
_FREE = frozenset(
    {
        *("JobName", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "SubmitLine"),
        *("Comment", "AdminComment", "SystemComment", "Extra", "Dependency"),
    }
)
#: Whose job it is. A name or comment can hold a line that looks like one of Slurm's own, so
#: where two lines disagree about this, the owner is not known.
_OWNER = "UserId"


@dataclass(frozen=True)
class Field:
    """One column: Slurm's word for it, the attribute it becomes, its reader."""

    ask: str
    name: str
    read: Callable[[str], Any] = str


@dataclass(frozen=True)
class FieldTable:
    """Columns in the order in which they are asked for.

    The first column is an id that matches `starts`, which is how a line break in a
    free text is told from the next row; the last one is the freest text of all.
    """

    fields: tuple[Field, ...]
    starts: re.Pattern[str]

    def long_format(self) -> str:
        """The -O argument of squeue and sinfo: unlimited width, closed by 0x1f.

        "-O name:0SUFFIX" exists since Slurm 20.02. Unlike -o it can ask for TRES, and
        only those show GPUs requested by --gpus.
        """
        return ",".join(f"{field.ask}:0{SEPARATOR}" for field in self.fields)

    def list_format(self) -> str:
        """The --format argument of sacct, sacctmgr and sshare."""
        return ",".join(field.ask for field in self.fields)

    def rows(self, text: str, separator: str = SEPARATOR) -> Iterator[Mapping[str, Any]]:
        """Read output in which every column, the last too, is closed by `separator`.

        What does not look like a row belongs to the text before it, or is dropped.
        """
        width = len(self.fields)
        for values in _split(text, width, self.starts, separator):
            yield {
                field.name: field.read(value)
                for field, value in zip(self.fields, values, strict=True)
            }


def _split(
    text: str, width: int, starts: re.Pattern[str], separator: str
) -> Iterator[Sequence[str]]:
    whole, _, _ = text.rpartition(separator + "\n")  # a row that was cut short is none
    row: list[str] = []
    for piece in whole.split(separator + "\n"):
        columns = piece.split(separator)
        starts_a_row = starts.fullmatch(columns[0]) is not None
        if row and (len(row) < width or not starts_a_row):
            # a line break at the start of a text looked like the end of a row
            row += ["\n" + columns[0], *columns[1:]]
        elif starts_a_row:
            if row:
                yield _fit(row, width, separator)
            row = columns
    if len(row) >= width:
        yield _fit(row, width, separator)


def _fit(row: list[str], width: int, separator: str) -> list[str]:
    """Exactly `width` columns; separators inside the last text go back into it."""
    return [*row[: width - 1], separator.join(row[width - 1 :])]


def command(program: str, *arguments: str) -> list[str]:
    """`program` with times as epoch seconds and without the person's own filters.

    Laptop and cluster may be in different time zones, and a date without a zone
    would be read wrongly. Slurm takes the format only from the environment, which
    SSH does not carry, so env(1) sets it on the far side.
    """
    unset = [word for name in _FILTERS for word in ("-u", name)] if program == "squeue" else []
    return ["env", *unset, "SLURM_TIME_FORMAT=%s", program, *arguments]


def job_ids(ids: Sequence[str]) -> list[str]:
    """The ids, unchanged; UsageError for anything else.

    Ids come from command lines and from a browser, and one such as "--user=x" would
    be an option of scancel. No job has the number 0, which `scontrol show job` takes for all.
    """
    for job_id in ids:
        if not _ID.fullmatch(job_id):
            raise UsageError(
                f"{printable(job_id, 80)!r} is not a job id.",
                "Write a number such as 123, or 123_4 for one task of an array.",
            )
    return list(ids)


def read_records(stdout: str, first_key: str) -> Iterator[dict[str, str]]:
    """Records of `scontrol show`, each starting with a line "FIRST_KEY=…"."""
    record: dict[str, str] = {}
    open_key: str | None = None
    for line in stdout.split("\n"):
        starts = line.startswith(f"{first_key}=")
        if starts and record:
            yield record
            record = {}
        if starts or (line.startswith("   ") and _ENTRY.match(line, 3)):
            open_key = _read_line(line.strip(" "), record)
        elif open_key and line.strip():
            record[open_key] += "\n" + line  # a line break inside a name or comment
    if record:
        yield record


def _read_line(line: str, record: dict[str, str]) -> str | None:
    """Add the entries of one line; returns the free one that may go on below."""
    position = 0
    while found := _ENTRY.match(line, position):
        key = found["key"]
        if key in _FREE:
            record.setdefault(key, line[found.end() :])
            return key
        following = re.compile(rf" +(?={_ENTRY.pattern})").search(line, found.end())
        end = following.start() if following else len(line)
        value = line[found.end() : end]
        if record.setdefault(key, value) != value and key == _OWNER:
            record[key] = ""
        position = following.end() if following else len(line)
    return None


def text(value: str) -> str:
    """The text, or "" where Slurm printed one of its words for "no value"."""
    return "" if value.strip().lower() in NO_VALUE else value


def optional(value: str) -> str | None:
    """The text, or None where Slurm printed one of its words for "no value"."""
    return text(value) or None


def words(value: str) -> tuple[str, ...]:
    """A comma list; the commas inside parentheses or brackets belong to a word."""
    return tuple(re.findall(r"(?:[^,(\[]|\([^)]*\)|\[[^\]]*\])+", text(value)))


def number(value: str) -> int | None:
    """A whole number; None for words, and for a range "1-4" its lower end."""
    found = re.match(r"\s*(-?\d+)", value)
    return int(found[1]) if found else None


def count(value: str) -> int:
    """A whole number, 0 for words."""
    return number(value) or 0


def decimal(value: str) -> float | None:
    """A number with or without a fraction; None for words."""
    try:
        return float(value)
    except ValueError:
        return None


def epoch(value: str) -> int | None:
    """A time that was asked for as epoch seconds; None for Unknown, None, N/A."""
    stripped = value.strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and stripped != "0" else None
