"""What people forget: workers, pinned memory, threads, the device, TF32, hubs without Internet."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import number, processors, say, torch_module
from jupyter_hpc.training.randomness import random_states, set_random_states

#: Libraries that would wait for an answer of the Internet.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
}


def device(local_rank: int | None = None) -> Any:
    """The GPU of this process, else the CPU."""
    torch = torch_module()
    if torch.cuda.is_available():
        rank = number("LOCAL_RANK", "SLURM_LOCALID") if local_rank is None else local_rank
        # A task that is bound to its GPU sees only that one.
        return torch.device("cuda", (rank or 0) % torch.cuda.device_count())
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def loader_options(**own: Any) -> dict[str, Any]:
    """For DataLoader(data, **loader_options(batch_size=64)): so many workers as this task has
    CPUs, kept over the epochs, reading ahead into memory that a GPU copies from."""
    workers = processors() if processors() > 1 else 0
    options: dict[str, Any] = {
        "num_workers": workers,
        "pin_memory": torch_module().cuda.is_available(),
    }
    if own.get("num_workers", workers):
        options |= {"persistent_workers": True, "prefetch_factor": 4}
    return options | own


def prepare(*, tf32: bool | None = None, offline: bool = False) -> Any:
    """Threads = CPUs of this task; TF32 and offline hubs where asked; says all; the device."""
    torch = torch_module()
    torch.set_num_threads(processors())
    said = [f"{processors()} threads"]
    if tf32 is not None:
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        said.append("TF32 on: faster, 10 bits of precision" if tf32 else "TF32 off")
    if offline:
        late = "" if os.environ.get("HF_HUB_OFFLINE") else _asks_already()
        os.environ.update({name: os.environ.get(name, value) for name, value in OFFLINE.items()})
        said.append(f"hubs offline{late}")
    found = device()
    say(", ".join([str(found), *said]))
    return found


def _asks_already() -> str:
    """Hugging Face's packages read the switch when they are imported."""
    for name in ("huggingface_hub", "datasets", "transformers"):
        if name in sys.modules:
            return f", but {name} was imported before, and asks on: this has to come first"
    return ""


def largest_batch(step: Callable[[int], Any], start: int = 1, limit: int = 65_536) -> int:
    """The largest size, up to `limit`, for which `step(size)` has enough memory.

    `step` does what the training does with one batch: forward, backward, optimizer. So it trains
    what it is given: make that anew for the training. Random states are as they were before.
    """
    torch = torch_module()
    states = random_states()

    def fits(size: int) -> bool:
        try:
            step(size)
            return True
        except (MemoryError, RuntimeError) as error:
            if not _is_memory(torch, error):
                raise
            return False
        finally:
            set_random_states(states)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    if not fits(start):
        raise UsageError(
            f"A batch of {start} does not fit into the memory.",
            "Begin smaller, or use a smaller model or a larger GPU.",
        )
    good, bad = start, limit + 1
    while good < limit and good * 2 < bad:
        tried = min(good * 2, limit)
        good, bad = (tried, bad) if fits(tried) else (good, tried)
    while bad - good > max(1, good // 16):  # the last percents are not worth their trials
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    limited = ", the limit" if good == limit else ""
    say(f"the largest batch that fits is {good}{limited}; the trials have trained their model, so "
        "make it anew")  # fmt: skip
    return good


def _is_memory(torch: Any, error: BaseException) -> bool:
    words = str(error).lower()
    return (
        isinstance(error, MemoryError | torch.cuda.OutOfMemoryError)
        or "out of memory" in words
        or "not enough memory" in words
        or "can't allocate memory" in words
    )
