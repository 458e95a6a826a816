"""Field tables: the same table asks and reads, and texts survive."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.slurm.fields import (
    SEPARATOR,
    Field,
    FieldTable,
    command,
    count,
    decimal,
    epoch,
    number,
    optional,
    text,
)

TABLE = FieldTable(
    (Field("Id", "id"), Field("Size", "size", count), Field("Note", "note"), Field("Name", "name")),
    starts=re.compile(r"\d+"),
)


def _printed(rows: Sequence[tuple[str, ...]]) -> str:
    return "".join("".join(f"{value}{SEPARATOR}" for value in row) + "\n" for row in rows)


def test_formats_list_the_same_columns() -> None:
    assert TABLE.list_format() == "Id,Size,Note,Name"
    assert TABLE.long_format() == "Id:0\x1f,Size:0\x1f,Note:0\x1f,Name:0\x1f"


def test_rows() -> None:
    rows = list(TABLE.rows(_printed([("1", "2", "", "a|b, c"), ("3", "x", "-", "")])))
    assert rows == [
        {"id": "1", "size": 2, "note": "", "name": "a|b, c"},
        {"id": "3", "size": 0, "note": "-", "name": ""},
    ]


def test_nothing_printed_is_no_row() -> None:
    assert list(TABLE.rows("")) == []
    assert list(TABLE.rows("\n")) == []


_free = st.text(st.characters(exclude_characters=SEPARATOR, exclude_categories=["Cs"]))


@given(st.lists(st.tuples(st.integers(0, 9999), _free, _free), max_size=6))
def test_any_text_without_the_separator_survives(values: list[tuple[int, str, str]]) -> None:
    printed = [(str(number), "7", note, name) for number, note, name in values]
    read = [(row["id"], row["note"], row["name"]) for row in TABLE.rows(_printed(printed))]
    assert read == [(number, note, name) for number, _, note, name in printed]


def test_a_name_that_begins_like_a_row_is_a_name() -> None:
    (row,) = TABLE.rows(_printed([("1", "2", "", "\n55")]))
    assert row["name"] == "\n55"


def test_a_separator_in_the_name_stays_in_the_name() -> None:
    hostile = f"a{SEPARATOR}b{SEPARATOR}\nmore"
    printed = _printed([("1", "2", "n", hostile), ("3", "4", "m", "next")])
    read = list(TABLE.rows(printed))
    assert [row["id"] for row in read] == ["1", "3"]
    assert read[0]["name"] == hostile
    assert read[1]["name"] == "next"


def test_a_cut_answer_gives_the_whole_rows() -> None:
    printed = _printed([("1", "2", "n", "a"), ("3", "4", "m", "next")])
    assert [row["id"] for row in TABLE.rows(printed[:-9])] == ["1"]


def test_command_asks_for_epoch_seconds_and_drops_personal_filters() -> None:
    squeue = command("squeue", "--me")
    assert squeue[0] == "env"
    assert squeue[-3:] == ["SLURM_TIME_FORMAT=%s", "squeue", "--me"]
    assert "SQUEUE_STATES" in squeue
    assert command("sacct") == ["env", "SLURM_TIME_FORMAT=%s", "sacct"]


def test_readers_of_single_values() -> None:
    assert (text("N/A"), text("(null)"), text("None"), text("x")) == ("", "", "", "x")
    assert (optional("Unknown"), optional("x")) == (None, "x")
    assert (number("4"), number("1-4"), number("N/A"), number("UNLIMITED")) == (4, 1, None, None)
    assert (count("4"), count("N/A")) == (4, 0)
    assert (decimal("0.25"), decimal("inf?")) == (0.25, None)
    assert epoch("1794801870") == 1794801870
    assert [epoch(word) for word in ("Unknown", "None", "N/A", "0", "", "²")] == [None] * 6
