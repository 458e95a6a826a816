"""The GPU recording of a batch job."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.batch.runtime.job.gpu_record import GPU_HEADER
from jupyter_hpc.gpu.recording import RecordedUse, read_recording, recorded_use

MIB = 1024 * 1024
HEADER = ",".join(GPU_HEADER) + "\n"


def line(time: float, host: str, gpu: int, load: str) -> str:
    return f'{time},{host},{gpu},"A, B",{load},100,400,50,\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gpu-usage.csv"


def test_what_the_runtime_writes_can_be_read(path: Path) -> None:
    lines = [
        line(1000.0 + second, "gpu01", 0, f"{10 * second}") + line(1000.0 + second, "gpu01", 1, "")
        for second in range(5)
    ]
    path.write_text(HEADER + "".join(lines))
    view = read_recording(path)
    assert view.times == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]
    one, other = view.gpus
    assert one.name == "A, B"
    assert one.load == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert one.memory_used == [100 * MIB] * 5
    assert one.memory_total == 400 * MIB
    assert (one.power, one.temperature) == ([50.0] * 5, [None] * 5)
    assert other.load == [None] * 5
    assert recorded_use(path).loads == {"gpu01:0": 20.0}


def test_a_line_that_was_cut_off_is_ignored(path: Path) -> None:
    path.write_text(HEADER + line(1.0, "a", 0, "50") + "2.0,a,0,x,9")
    assert read_recording(path).times == [1.0]
    assert list(recorded_use(path).loads.values()) == [50.0]


@pytest.mark.parametrize(
    "spoilt",
    [
        '3.0,a,0,"' + "x" * 200_000 + "\n",
        "inf,a,0,x,9,1,1,1,1\n",
        "1e300,a,0,x,9,1,1,1,1\n",
        "nan,b,1,y,9,1,inf,1,1\n",
        "\0" * 4096 + "\n",
    ],
    ids=["quote", "infinite", "huge", "number", "zeros"],
)
def test_a_spoilt_file_counts_as_far_as_it_can_be_read(path: Path, spoilt: str) -> None:
    path.write_text(HEADER + line(1.0, "a", 0, "50") + spoilt)
    view = read_recording(path)
    assert (view.times, len(view.gpus)) == ([1.0], 1)
    assert recorded_use(path).loads


def test_a_reading_without_an_end_is_no_reading(path: Path) -> None:
    path.write_text(HEADER + "5.0,a,0,x,inf,1e400,inf,1,1\n")
    view = read_recording(path)
    assert (view.times, view.gpus[0].memory_total, recorded_use(path).loads) == ([5.0], None, {})


def test_two_nodes_share_rows_of_the_same_second(path: Path) -> None:
    path.write_text(HEADER + line(1.1, "a", 0, "10") + line(1.3, "b", 0, "30"))
    view = read_recording(path)
    assert len(view.times) == 1
    assert [gpu.id for gpu in view.gpus] == ["a:0", "b:0"]
    assert [gpu.load for gpu in view.gpus] == [[10.0], [30.0]]


def test_columns_may_be_missing_or_in_another_order(path: Path) -> None:
    path.write_text("gpu,load,time\n0,40,5\n0,bad,6\n0,60,nonsense\n")
    view = read_recording(path)
    assert view.times == [5.0, 6.0]
    assert view.gpus[0].load == [40.0, None]
    assert view.gpus[0].power == [None, None]


def test_a_long_recording_is_thinned(path: Path) -> None:
    lines = [f"{second},a,0,x,{second % 2 * 100}" for second in range(10_000)]
    path.write_text("\n".join(["time,host,gpu,name,load", *lines]) + "\n")
    view = read_recording(path, points=100)
    assert len(view.times) <= 100
    assert view.gpus[0].load[5] == pytest.approx(50, abs=1)


def test_an_empty_file_is_an_empty_history(path: Path) -> None:
    path.touch()
    assert read_recording(path).times == []
    assert recorded_use(path) == RecordedUse({}, None, None, None)


def test_a_recording_in_a_few_numbers(path: Path) -> None:
    rows = [
        f"{time},a,{gpu},x,50,{100 + time},400,360,\n"
        for time in range(0, 31, 10)
        for gpu in (0, 1)
    ]
    rows.append("9000,a,0,x,50,10,400,360,\n")  # the job was requeued in between
    path.write_text(HEADER + "".join(rows))
    found = recorded_use(path)
    assert found.loads == {"a:0": 50.0, "a:1": 50.0}
    assert (found.memory_mib, found.memory_total_mib) == (130.0, 400.0)
    assert found.energy_wh == pytest.approx(2 * 360 * 30 / 3600 + 360 * 60 / 3600, abs=0.1)
