"""The random states of a process: Python's, NumPy's, torch's and those of its GPUs."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

from jupyter_hpc.training.common import torch_module


def random_states(generators: Sequence[Any] = ()) -> dict[str, Any]:
    """All of them, of plain values and tensors; `generators` are those that a loader has itself."""
    torch = torch_module()
    found: dict[str, Any] = {
        "python": random.getstate(),
        "torch": torch.get_rng_state(),
        "generators": [generator.get_state().cpu() for generator in generators],
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        found["numpy"] = (str(name), keys.tolist(), *rest)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = [torch.cuda.get_rng_state(each) for each in _gpus(torch)]
    return found


def set_random_states(states: dict[str, Any], generators: Sequence[Any] = ()) -> None:
    """Go on drawing where the states were taken."""
    torch = torch_module()
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    set_generators(states, generators)
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    if "cuda" in states and torch.cuda.is_available():
        for each, state in zip(_gpus(torch), states["cuda"], strict=False):
            torch.cuda.set_rng_state(state, each)


def _gpus(torch: Any) -> list[int]:
    """The one that is used first: where only it is seen, or others, it has another number."""
    first, count = torch.cuda.current_device(), torch.cuda.device_count()
    return [first, *(each for each in range(count) if each != first)]


def set_generators(states: dict[str, Any], generators: Sequence[Any]) -> None:
    """The same for those of a loader alone."""
    for generator, state in zip(generators, states["generators"], strict=False):
        generator.set_state(state)


def seed_all(seed: int) -> None:
    """Begin all of them anew."""
    random.seed(seed)
    torch_module().manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
