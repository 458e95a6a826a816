"""A copy of a state in host memory, made of nothing that could not be loaded safely again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import torch_module

#: Loaded by `torch.load(weights_only=True)` as they are.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class HostCopy:
    """Copies states, each time into the memory of the time before.

    New memory costs more than the copy itself, and only one copy is in use at a time.
    """

    def __init__(self) -> None:
        self._torch = torch_module()
        self._buffers: dict[tuple[str, ...], Any] = {}
        self._shared: dict[Any, Any] = {}
        #: GPUs from which something is still on its way.
        self._sources: set[Any] = set()

    def copy(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state, without a tie to the objects that it came from.

        UsageError names what cannot be saved.
        """
        self._shared = {}
        threads = self._torch.get_num_threads()
        self._torch.set_num_threads(1)  # they would wait for each other at each tensor
        try:
            copied: dict[str, Any] = self._copied(state, ())
        finally:
            self._torch.set_num_threads(threads)
            while self._sources:  # a copy is in the stream of the GPU that it comes from
                self._torch.cuda.current_stream(self._sources.pop()).synchronize()
        return copied

    def _copied(self, value: Any, path: tuple[str, ...]) -> Any:
        torch = self._torch
        if type(value) in _PLAIN or isinstance(value, torch.dtype | torch.device):
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if isinstance(value, Mapping):
            return {
                self._copied(key, path): self._copied(each, (*path, str(key)))
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            items = [self._copied(each, (*path, str(n))) for n, each in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        if hasattr(value, "__array__") and hasattr(value, "item"):  # of NumPy
            return self._tensor(torch.as_tensor(value), path) if value.ndim else value.item()
        raise UsageError(
            f"{'.'.join(path)} is a {type(value).__qualname__}, which cannot be saved in a "
            "checkpoint that is safe to load.",
            "Keep numbers, text, lists, dictionaries and tensors in it.",
        )

    def _tensor(self, value: Any, path: tuple[str, ...]) -> Any:
        value = value.detach()
        if hasattr(value, "to_local") or value.layout != self._torch.strided:
            return value.cpu() if value.device.type != "cpu" else value.clone()
        # Tied weights are one tensor with two names, and stay one.
        same = (value.data_ptr(), value.dtype, value.device, value.shape, value.stride())
        if value.numel() and same in self._shared:
            return self._shared[same]
        buffer = self._buffers.get(path)
        layout = (value.shape, value.dtype, value.stride())
        if buffer is None or (buffer.shape, buffer.dtype, buffer.stride()) != layout:
            pinned = value.device.type == "cuda"
            buffer = self._torch.empty_like(value, device="cpu", pin_memory=pinned)
            self._buffers[path] = buffer
        if value.device.type == "cuda":
            self._sources.add(value.device)
        buffer.copy_(value, non_blocking=value.device.type == "cuda")
        self._shared[same] = buffer
        return buffer
