"""The random states of a process: Python's, NumPy's, torch's and those of its GPU."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

from jupyter_hpc.training.common import torch_module


def random_states(generators: Sequence[Any] = ()) -> dict[str, Any]:
    """All of them, as tensors and numbers; `generators` are those that a loader has itself."""
    torch = torch_module()
    version, words, gauss = random.getstate()
    found: dict[str, Any] = {
        "python": (version, torch.tensor(words, dtype=torch.int64), gauss),
        "torch": torch.get_rng_state(),
        "generators": [generator.get_state().cpu() for generator in generators],
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        keys = torch.from_numpy(keys.astype("int64"))
        found["numpy"] = (str(name), keys, int(position), int(has_gauss), float(cached))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def set_random_states(states: dict[str, Any], generators: Sequence[Any] = ()) -> None:
    """Go on drawing where the states were taken."""
    torch = torch_module()
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    torch.set_rng_state(states["torch"])
    for generator, state in zip(generators, states["generators"], strict=False):
        generator.set_state(state)
    if "numpy" in states:
        import numpy

        name, keys, position, has_gauss, cached = states["numpy"]
        keys = keys.numpy().astype("uint32")
        numpy.random.set_state((name, keys, position, has_gauss, cached))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def seed_all(seed: int) -> None:
    """Begin all of them anew."""
    torch = torch_module()
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
