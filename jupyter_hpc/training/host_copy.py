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

    def copy(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state, without a tie to the objects that it came from.

        UsageError names what cannot be saved.
        """
        self._shared = {}
        threads = self._torch.get_num_threads()
        self._torch.set_num_threads(1)  # they would wait for each other at each tensor
        try:
            copied = {name: self._copied(value, (name,)) for name, value in state.items()}
        finally:
            self._torch.set_num_threads(threads)
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.current_stream().synchronize()
        return copied

    def adopt(self, state: Any, path: tuple[str, ...]) -> None:
        """Use the memory of a state that was loaded, and is not needed further."""
        if isinstance(state, self._torch.Tensor):
            self._buffers[path] = state
        elif isinstance(state, Mapping | list | tuple):
            pairs = state.items() if isinstance(state, Mapping) else enumerate(state)
            for key, value in pairs:
                self.adopt(value, (*path, str(key)))

    def _copied(self, value: Any, path: tuple[str, ...]) -> Any:
        torch = self._torch
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if type(value) in _PLAIN or isinstance(value, torch.dtype | torch.device):
            return value
        if isinstance(value, Mapping):
            return {
                self._key(key, path): self._copied(each, (*path, str(key)))
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            items = [self._copied(each, (*path, str(n))) for n, each in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
            return value.item()  # one number of NumPy
        if type(value).__module__ == "numpy" and hasattr(value, "__array__"):
            return self._tensor(torch.as_tensor(value), path)
        raise UsageError(
            f"{'.'.join(path)} is a {type(value).__qualname__}, which cannot be saved in a "
            "checkpoint that is safe to load.",
            "Keep numbers, text, lists, dictionaries and tensors in it.",
        )

    def _key(self, key: Any, path: tuple[str, ...]) -> Any:
        if isinstance(key, tuple):
            return tuple(self._copied(each, path) for each in key)
        return self._copied(key, path)

    def _tensor(self, value: Any, path: tuple[str, ...]) -> Any:
        value = value.detach()
        if hasattr(value, "to_local"):  # the part that this process has of it
            return value.cpu() if value.device.type != "cpu" else value.clone()
        if value.layout != self._torch.strided:
            return value.to("cpu", copy=True)
        # Tied weights are one tensor with two names, and stay one.
        same = (value.data_ptr(), value.dtype, value.device, value.shape, value.stride())
        if value.numel() and same in self._shared:
            return self._shared[same]
        buffer = self._buffers.get(path)
        if (
            buffer is None
            or buffer.shape != value.shape
            or buffer.dtype != value.dtype
            or buffer.stride() != value.stride()
            # An optimizer keeps the tensors that were loaded into it.
            or buffer.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        ):
            pinned = value.device.type == "cuda"
            buffer = self._torch.empty_like(value, device="cpu", pin_memory=pinned)
            self._buffers[path] = buffer
        buffer.copy_(value, non_blocking=value.device.type == "cuda")
        self._shared[same] = buffer
        return buffer
