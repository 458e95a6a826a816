"""States on several GPUs, played by tensors that say they are there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.training.host_copy import HostCopy
from jupyter_hpc.training.randomness import random_states, set_random_states

pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.timeout(400)]


def test_a_copy_waits_for_each_gpu_that_it_comes_from(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which streams are waited for, not that a GPU keeps to them: there is none here."""
    waited: list[Any] = []

    def stream(device: Any = None) -> Any:
        return SimpleNamespace(synchronize=lambda: waited.append(device))

    def on(number: int) -> Any:
        kind = type("OnGpu", (torch.Tensor,), {"device": torch.device("cuda", number)})
        return torch.ones(2).as_subclass(kind)

    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr(torch, "empty_like", lambda value, **_: torch.empty(value.shape))
    copier = HostCopy()
    copied = copier.copy({"a": on(1), "b": [on(2), on(1)], "c": torch.ones(1)})
    assert copied["b"][0].tolist() == [1, 1]
    assert sorted(waited, key=str) == [torch.device("cuda", 1), torch.device("cuda", 2)]
    copier.copy({"c": torch.ones(1)})
    assert len(waited) == 2, "nothing is on its way"


def test_random_states_of_all_gpus_are_kept_the_own_one_first(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawing on GPU 1 while 0 is current, or the other way round after a restart."""
    states = {0: torch.tensor([0]), 1: torch.tensor([1]), 2: torch.tensor([2])}
    current = [1]
    for name, value in {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: len(states),
        "current_device": lambda: current[0],
        "get_rng_state": lambda device="cuda": states[device],
        "set_rng_state": lambda state, device="cuda": states.__setitem__(device, state),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    kept = random_states()
    states.update({number: torch.tensor([9]) for number in states})
    set_random_states(kept)
    assert [int(states[number]) for number in range(3)] == [0, 1, 2]
    current[0], states = 0, {0: torch.tensor([9])}  # a task that sees its own alone
    set_random_states(kept)
    assert int(states[0]) == 1
