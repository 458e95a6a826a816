"""Which GPUs belong to this job."""

from __future__ import annotations

import pytest

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.visible import Wanted, wanted_devices

CUDA = ("CUDA_VISIBLE_DEVICES",)


def test_outside_a_job_every_gpu_is_shown() -> None:
    assert wanted_devices({}, CUDA) == Wanted(everything=True)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("0", ("0",)),
        ("3, 1", ("3", "1")),
        ("GPU-aa,MIG-bb", ("GPU-aa", "MIG-bb")),
        ("0,-1,2", ("0",)),
    ],
)
def test_the_variable_decides(text: str, entries: tuple[str, ...]) -> None:
    wanted = wanted_devices({"CUDA_VISIBLE_DEVICES": text}, CUDA, allocated="7", in_job=True)
    assert wanted == Wanted(everything=False, entries=entries)


@pytest.mark.parametrize("text", ["", "-1", "NoDevFiles", "none"])
def test_words_for_no_gpu(text: str) -> None:
    with pytest.raises(GpuUnavailable, match="This job has no GPU"):
        wanted_devices({"CUDA_VISIBLE_DEVICES": text}, CUDA)


def test_the_schedulers_list_counts_where_the_variable_is_missing() -> None:
    assert wanted_devices({}, CUDA, allocated="2,3", in_job=True).entries == ("2", "3")


def test_a_job_without_any_word_about_gpus_has_none() -> None:
    with pytest.raises(GpuUnavailable, match="This job has no GPU"):
        wanted_devices({}, CUDA, in_job=True)


def test_the_first_variable_that_is_set_wins() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert wanted_devices(environ, ("ROCR_VISIBLE_DEVICES", *CUDA)).entries == ("1",)
