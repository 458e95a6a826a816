"""What a trial's times mean for time, memory and the parts of a chain."""

from __future__ import annotations

import pytest

from jupyter_hpc.batch.trial.measured import Filled, Measured, TrialFailed, fill, read_result, split

MEASURED = Measured(2, 30.0, epoch=10.0, once=10.0, memory=3_100_000_000)
RUN = {"epochs": 1, "code": 0, "why": "", "seconds": 6.0, "bytes": 10, "gpu_bytes": 3, "log": ""}


def test_epochs_are_told_from_what_is_done_once() -> None:
    assert split(14.0, 24.0, 3) == (5.0, 9.0)
    assert split(1.2, 1.4, 2) == (0.7, 0.0)  # only chance: too much rather than too little
    assert split(5.0, 5.0, 1) == (5.0, 0.0)


def test_the_margin_and_the_parts() -> None:
    assert MEASURED.whole(90) == 910
    assert MEASURED.time_limit(90) == 20 * 60  # 1183 s
    assert (MEASURED.memory_request(), MEASURED.memory_request(4)) == ("5G", "17G")
    assert MEASURED.parts(90, 1300) == 1
    assert MEASURED.parts(90, 650) == 2  # 49 epochs each
    assert MEASURED.parts(90, 14) == 0
    assert "GPU" not in MEASURED.sentence(90)
    assert MEASURED.sentence(90).endswith("All 90 would take 15 min; asked for is 30% more.")
    assert MEASURED.sentence(9).endswith("asked for is 30% more, and 5 min at least.")


def test_what_is_filled() -> None:
    assert fill(MEASURED, 90) == Filled("00:20:00", "5G", None)
    assert fill(MEASURED, 90, longest=1200) == Filled("00:20:00", "5G", None)
    assert fill(MEASURED, 90, longest=650) == Filled("00:10:50", "5G", 2)
    assert fill(MEASURED, 90, unit=650, longest=9000) == Filled("00:10:50", "5G", 2)
    assert fill(MEASURED, 90, unit=3600) == Filled("00:20:00", "5G", None)
    with pytest.raises(TrialFailed, match="does not fit into one part of 14 s"):
        fill(MEASURED, 90, unit=14)


def test_what_was_written_is_read() -> None:
    second = {**RUN, "epochs": 2, "seconds": 10.0, "bytes": 20}
    assert read_result({"runs": [RUN, second]}, 600) == Measured(2, 10.0, 4.0, 2.0, 20, 3)
    late = {**second, "code": None, "why": "time"}
    assert read_result({"runs": [RUN, late]}, 600) == Measured(1, 6.0, 6.0, 0.0, 20, 3)
    for result, why in (
        ({}, "The trial did not begin. Its last lines:\nno conda"),
        ({"runs": [], "busy": True}, "Another trial"),
        ({"runs": [late]}, "2 epochs were not over after 10 min"),
        ({"runs": [{**RUN, "code": None, "why": "ended"}]}, "was ended before it was over"),
        ({"runs": [{**RUN, "code": None, "why": "folder", "log": "No space"}]}, "No space"),
        ({"runs": [RUN, {**second, "code": 1, "log": "CUDA out of memory."}]}, "GPU was full"),
    ):
        with pytest.raises(TrialFailed) as error:
            read_result(result, 600, "no conda\n")
        assert why in error.value.message
    log = "[jupyter-hpc] parameter epochs = 1\nMemoryError\n"
    with pytest.raises(TrialFailed) as error:
        read_result({"runs": [{**RUN, "code": 1, "log": log}]}, 600)
    assert error.value.message.endswith("Its last lines:\nMemoryError")
    assert "a session with more memory" in error.value.hint, "no other job helps the trial"
