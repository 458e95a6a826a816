"""The real NVML binding on a library with invented GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pynvml  # type: ignore[import-untyped]
import pytest

from tests.gpu.library import NAME, library_folder

SetUp = Callable[..., None]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SetUp:
    """`nvml(gpus=8, mig="1", …)`: what the GPUs are like; see nvml.c."""
    library = ctypes.CDLL(str(library_folder() / NAME))
    library.nvmlErrorString.restype = ctypes.c_char_p
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def set_up(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"FAKE_NVML_{name.upper()}", str(value))

    set_up(gpus=8)
    return set_up
