"""Times, memory, TRES and GRES: every spelling, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm import units
from jupyter_hpc.slurm.models import GpuCount
from jupyter_hpc.slurm.units import Gres

WALLTIMES = {
    "30": 1800,
    "90:15": 5415,
    "12:00:00": 43200,
    "2-6": 194400,
    "2-06:30": 196200,
    "1-02:03:04": 93784,
    "0:00": 0,
    "100:00:00": 360000,
    " 10:00 ": 600,
}


@pytest.mark.parametrize(("text", "seconds"), WALLTIMES.items())
def test_walltime_forms(text: str, seconds: int) -> None:
    assert units.parse_walltime(text) == seconds
    assert units.read_walltime(text) == seconds


@pytest.mark.parametrize("text", ["UNLIMITED", "unlimited", "INFINITE"])
def test_unlimited_is_no_number(text: str) -> None:
    assert units.parse_walltime(text) is None
    assert units.read_walltime(text) is None


@pytest.mark.parametrize(
    "text", ["Partition_Limit", "INVALID", "NOT_SET", "N/A", "Unknown", "", "(null)", "None"]
)
def test_words_in_the_place_of_a_time_are_read_as_none(text: str) -> None:
    assert units.read_walltime(text) is None


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1.5", "2-", "1h", "10:00.5", "٣"])
def test_a_person_is_told_the_forms_of_a_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time limit") as caught:
        units.parse_walltime(text)
    assert "HOURS:MIN:SEC" in caught.value.hint


def test_fractions_of_sacct() -> None:
    assert units.read_seconds("00:01.250") == 1.25
    assert units.read_seconds("01:00:00.5") == 3600.5
    assert units.read_walltime("00:59.999") == 59


@given(st.one_of(st.none(), st.integers(0, 400 * units.DAY)))
def test_walltime_survives_writing_and_reading(seconds: int | None) -> None:
    text = units.format_walltime(seconds)
    assert units.parse_walltime(text) == seconds
    assert units.read_walltime(text) == seconds


@given(st.text())
def test_reading_never_fails(text: str) -> None:
    units.read_walltime(text)
    units.read_memory_mb(text)
    units.read_used_memory_mb(text)
    units.read_gres(text)
    units.read_tres(text)


@given(st.text())
def test_parsing_gives_a_value_or_a_usage_error(text: str) -> None:
    for parse in (units.parse_walltime, units.parse_memory):
        try:
            parse(text)
        except UsageError as error:
            assert error.hint


@pytest.mark.parametrize(
    ("text", "megabytes"),
    {
        "512M": 512,
        "1G": 1024,
        "1.5G": 1536,
        "2T": 2 * 2**20,
        "4000": 4000,
        "0": 0,
        "1K": 1,
        "4Gn": 4096,
        "512Mc": 512,
        "32gb": 32768,
        "10GiB": 10240,
    }.items(),
)
def test_memory_as_slurm_prints_it(text: str, megabytes: int) -> None:
    assert units.read_memory_mb(text) == megabytes


@pytest.mark.parametrize("text", ["", "N/A", "all", "-1", "UNLIMITED"])
def test_words_in_the_place_of_memory(text: str) -> None:
    assert units.read_memory_mb(text) is None


def test_usage_columns_count_in_bytes_without_a_unit() -> None:
    assert units.read_used_memory_mb("1048576") == 1
    assert units.read_used_memory_mb("3312K") == pytest.approx(3.234, abs=0.001)
    assert units.read_used_memory_mb("") is None


@pytest.mark.parametrize("text", ["", "lots", "4Gc", "1.5G", "1P", "-1"])
def test_a_person_is_told_the_forms_of_memory(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount of memory"):
        units.parse_memory(text)


@given(st.integers(0, 2**40))
def test_memory_survives_writing_and_reading(megabytes: int) -> None:
    assert units.parse_memory(units.format_memory(megabytes)) == megabytes


@pytest.mark.parametrize(
    ("text", "resources"),
    [
        ("gpu", (Gres("gpu", "", 1),)),
        ("gpu:2", (Gres("gpu", "", 2),)),
        ("gpu:a100", (Gres("gpu", "a100", 1),)),
        ("gpu:a100:2(S:0-1)", (Gres("gpu", "a100", 2),)),
        ("gres:gpu:a100:1", (Gres("gpu", "a100", 1),)),
        ("gres/gpu:a100=1", (Gres("gpu", "a100", 1),)),
        ("gres/gpu=3", (Gres("gpu", "", 3),)),
        ("gpu:H100:4", (Gres("gpu", "H100", 4),)),
        ("gpu:a100_1g.5gb:7(S:0)", (Gres("gpu", "a100_1g.5gb", 7),)),
        ("gpu:1080ti:2(IDX:0-1)", (Gres("gpu", "1080ti", 2, "0-1"),)),
        ("gpu:a100:0(IDX:N/A),gpu:p4:2(IDX:0,2-3)",
         (Gres("gpu", "a100", 0), Gres("gpu", "p4", 2, "0,2-3"))),
        ("gpu:a100:2(S:0),shard:a100:8(S:0)", (Gres("gpu", "a100", 2), Gres("shard", "a100", 8))),
        ("gpu:no_consume:2", (Gres("gpu", "", 2),)),
        ("bandwidth:lustre:4K", (Gres("bandwidth", "lustre", 4096),)),
        ("(null)", ()),
        ("N/A", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_gres(text: str, resources: tuple[Gres, ...]) -> None:
    assert units.read_gres(text) == resources


def test_gpus_of_a_list_are_added_by_type() -> None:
    found = units.gpu_counts(units.read_gres("gpu:a100:2,gpu:p4:1,gpu:a100:1,shard:4,gpu:2"))
    assert found == (GpuCount("a100", 3), GpuCount("p4", 1), GpuCount("", 2))


def test_tres() -> None:
    tres = units.read_tres("cpu=6,mem=32G,node=1,billing=24,gres/gpu=2,gres/gpu:a100=2,energy=0")
    assert (tres.cpus, tres.memory_mb, tres.nodes, tres.billing) == (6, 32768, 1, 24)
    assert tres.gpus == (GpuCount("a100", 2),)
    assert (tres.gpu_count, tres.gpu_types) == (2, "a100")
    assert tres.other == {"energy": "0"}


def test_tres_counts_gpus_without_a_type_only_once() -> None:
    assert units.read_tres("gres/gpu=3").gpus == (GpuCount("", 3),)
    mixed = units.read_tres("gres/gpu=3,gres/gpu:a100=1,gres/gpu:a100_1g.5gb=1")
    assert mixed.gpu_count == 3
    assert mixed.gpu_types == "a100,a100_1g.5gb"


def test_tres_of_a_word_is_empty() -> None:
    assert units.read_tres("N/A") == units.Tres()


def test_a_span_without_end_is_none() -> None:
    for text in ("9" * 5000, f"{'9' * 5000}-00:00:00", f"00:{'9' * 5000}"):
        assert units.read_seconds(text) is None
