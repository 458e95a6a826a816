"""The order of the samples, and how to stand at the same batch again without reading those before.

The sampler draws its order at the beginning of an epoch. It is drawn again from the random
states of that moment, and the batches that were done are passed over as indices; no sample is
read twice. Workers would still differ, because their random states depend on what they have
read before: so they begin each batch with states that come from its position alone. A run then
does not depend on the number of workers either.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jupyter_hpc.training.common import say, torch_module
from jupyter_hpc.training.randomness import random_states, seed_all, set_random_states

States = dict[str, Any]


class LoaderOrder:
    """One loader: its order in this epoch, and how to begin in the middle of it."""

    def __init__(self, loader: Any) -> None:
        data = torch_module().utils.data
        self.loader = loader
        self.is_stateful = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        own = (
            isinstance(loader, data.DataLoader)
            and type(loader).__iter__ is data.DataLoader.__iter__
            and not isinstance(loader.dataset, data.IterableDataset)
        )
        self._indices: _Indices | None = None
        if own and not self.is_stateful:
            self._indices = _Indices(loader)
            self._indexed = _with_indices(loader, self._indices)
        samplers = (getattr(loader, name, None) for name in ("batch_sampler", "sampler"))
        found = [getattr(part, "generator", None) for part in (loader, *samplers)]
        #: Those that belong to the loader; one of several parts counts once.
        self.generators = list({id(each): each for each in found if each is not None}.values())
        self.length = len(loader) if hasattr(loader, "__len__") and own else None

    def states(self) -> States:
        """The random states of now, those of the loader among them."""
        return random_states(self.generators)

    def start(
        self, epoch: int, done: int, begin: States, now: States | None, loader_state: Any
    ) -> Iterable[Any]:
        """The batches of an epoch after `done` of them.

        `begin` are the states of the epoch's first moment; `now`, those to go on with.
        """
        for part in (self.loader, *self._samplers()):
            if hasattr(part, "set_epoch"):  # else a DistributedSampler repeats its first order
                part.set_epoch(epoch)

        def go_on() -> None:
            if now is not None:
                set_random_states(now, self.generators)

        if self.is_stateful:
            if loader_state is not None:
                self.loader.load_state_dict(loader_state)
            set_random_states(now or begin, self.generators)
            return _each(self.loader)
        if self._indices is not None:
            self._indices.prepare(done, begin, go_on, self.generators)
            return _each(self._indexed)
        set_random_states(begin, self.generators)
        return _after(self.loader, done, go_on)

    def _samplers(self) -> Iterator[Any]:
        batches = getattr(self.loader, "batch_sampler", None)
        yield from (getattr(self.loader, "sampler", None), batches)
        yield getattr(batches, "sampler", None)


def _each(loader: Iterable[Any]) -> Iterator[Any]:
    return iter(loader)


def _after(loader: Iterable[Any], done: int, go_on: Callable[[], None]) -> Iterator[Any]:
    """A loader that knows no positions: what was done is read again."""
    batches = iter(loader)
    if done:
        say(f"reads {done} batches again, because this loader knows no positions")
        for _ in range(done):
            next(batches, None)
    go_on()
    yield from batches


class _Indices:
    """The loader's own indices, from a position on; for workers each with that position."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._source = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
        self._skip = 0
        self._begin: States = {}
        self._generators: list[Any] = []
        self._go_on: Callable[[], None] = lambda: None

    def prepare(
        self, skip: int, begin: States, go_on: Callable[[], None], generators: list[Any]
    ) -> None:
        self._skip, self._begin, self._go_on = skip, begin, go_on
        self._generators = generators

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[Any]:
        # Not from where the loader has just been: with workers that persist it draws
        # once less in every epoch but the first.
        set_random_states(self._begin, self._generators)
        torch = torch_module()  # drawn as a plain loader does, so that the order is the same
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator))
        indices = iter(self._source)
        for _ in range(self._skip):
            if next(indices, None) is None:
                return
        self._go_on()
        for position, index in enumerate(indices, self._skip):
            if not self._loader.num_workers:
                yield index
            elif self._loader.batch_sampler is None:
                yield _Located(seed + position, [index])
            else:
                yield [_Located(seed + position, list(index))]


class _Located:
    """The indices of one batch, and the seed of its random numbers."""

    def __init__(self, seed: int, indices: list[Any]) -> None:
        self.seed, self.indices = seed % 2**63, indices


class _SeededDataset:
    """The dataset of a worker: each batch begins with random states of its own."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not there yet: a copy that is being made
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, located: _Located) -> Any:
        seed_all(located.seed)
        return self.dataset[located.indices[0]]

    def __getitems__(self, batch: list[_Located]) -> list[Any]:
        (located,) = batch
        seed_all(located.seed)
        if callable(getattr(self.dataset, "__getitems__", None)):
            return list(self.dataset.__getitems__(located.indices))
        return [self.dataset[index] for index in located.indices]


class _WorkerStart:
    """In a worker: it ends when the process that it reads for says so, not when the job does."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __call__(self, worker: int) -> None:
        if hasattr(signal, "sigwaitinfo"):  # Linux, where Slurm is
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            threading.Thread(target=_end_by_parent, daemon=True).start()
        if self.own is not None:
            self.own(worker)


def _end_by_parent() -> None:
    """Ignored altogether, TERM would let the other process wait for this one without end."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)


def _with_indices(loader: Any, indices: _Indices) -> Any:
    """The same loader, which takes its indices from us."""
    torch = torch_module()
    workers = loader.num_workers
    options: dict[str, Any] = {
        "num_workers": workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "generator": loader.generator,
        **({"in_order": loader.in_order} if hasattr(loader, "in_order") else {}),
    }
    if workers:
        options |= {
            "worker_init_fn": _WorkerStart(loader.worker_init_fn),
            "multiprocessing_context": loader.multiprocessing_context,
            "prefetch_factor": loader.prefetch_factor,
            "persistent_workers": loader.persistent_workers,
        }
    if loader.batch_sampler is None:
        options |= {"sampler": indices, "batch_size": None}
    else:
        options["batch_sampler"] = indices
    dataset = _SeededDataset(loader.dataset) if workers else loader.dataset
    return torch.utils.data.DataLoader(dataset, **options)
