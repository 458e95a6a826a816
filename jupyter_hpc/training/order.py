"""The order of the samples, and how to stand at the same batch again without reading those before.

The sampler draws its order at the beginning of an epoch. It is drawn again from the random
states of that moment, and the batches that were done are passed over as indices; no sample is
read twice. Workers would still differ, because their random states depend on what they have
read before: so they begin each batch with states that come from its position alone. A run then
does not depend on the number of workers either.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from jupyter_hpc.training.common import say, torch_module
from jupyter_hpc.training.randomness import seed_all, set_random_states

States = dict[str, Any]


class LoaderOrder:
    """One loader: its order in this epoch, and how to begin in the middle of it."""

    def __init__(self, loader: Any) -> None:
        data = torch_module().utils.data
        self.loader = loader
        keeps = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._samplers = [getattr(loader, name, None) for name in ("sampler", "batch_sampler")]
        self._samplers.append(getattr(self._samplers[1], "sampler", None))
        # torchdata's loader keeps states of dataset and sampler, but no random ones of workers:
        # where there is nothing else to keep, it is read as any other.
        owners = (getattr(loader, "dataset", None), *self._samplers)
        is_plain = (
            isinstance(loader, data.DataLoader)
            and (keeps or type(loader).__iter__ is data.DataLoader.__iter__)
            and not isinstance(loader.dataset, data.IterableDataset)
            and not (keeps and any(hasattr(each, "state_dict") for each in owners))
        )
        self.is_stateful = keeps and not is_plain
        found = [getattr(part, "generator", None) for part in (loader, *self._samplers)]
        #: Those that belong to the loader; one of several parts counts once.
        self.generators = list({id(each): each for each in found if each is not None}.values())
        self.length = len(loader) if is_plain else None
        self._indices: _Indices | None = None
        if is_plain:
            self._indices = _Indices(loader, self.generators)
            self._indexed = _with_indices(loader, self._indices)

    def start(
        self, epoch: int, done: int, begin: States, now: States | None, loader_state: Any
    ) -> Iterator[Any]:
        """The batches of an epoch after `done` of them.

        `begin` are the states of the epoch's first moment; `now`, those to go on with.
        """
        for part in (self.loader, *self._samplers):
            if hasattr(part, "set_epoch"):  # else a DistributedSampler repeats its first order
                part.set_epoch(epoch)
        if self.is_stateful:
            if loader_state is not None:
                self.loader.load_state_dict(loader_state)
            set_random_states(begin, self.generators)
            batches: Iterator[Any] = iter(self.loader)  # which draws
            if now is not None:
                set_random_states(now, self.generators)
            return batches
        if self._indices is not None:
            self._indices.place = (done, begin, now)
            return iter(self._indexed)
        set_random_states(begin, self.generators)
        return self._read_again(done, now)

    def _read_again(self, done: int, now: States | None) -> Iterator[Any]:
        """A loader that knows no positions: what was done is read once more."""
        batches = iter(self.loader)
        if done:
            say(f"reads {done} batches again, because this loader knows no positions")
            for _ in itertools.islice(batches, done):
                pass
        if now is not None:
            set_random_states(now, self.generators)
        yield from batches


class _Indices:
    """A sampler: the loader's own indices from a position on, each with the seed of its batch."""

    def __init__(self, loader: Any, generators: list[Any]) -> None:
        self._loader, self._generators = loader, generators
        self._source = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
        #: Batches to pass over; the states to draw the order with; those to go on with.
        self.place: tuple[int, States, States | None] = (0, {}, None)

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[tuple[int | None, Any]]:
        done, begin, now = self.place
        # Not from where the loader has just been: with workers that persist it draws
        # once less in every epoch but the first.
        set_random_states(begin, self._generators)
        torch = torch_module()  # drawn as a plain loader does, so that the order is the same
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator))
        indices = iter(self._source)
        for _ in itertools.islice(indices, done):
            pass
        if now is not None:
            set_random_states(now, self._generators)
        for position, index in enumerate(indices, done):
            yield (seed + position) % 2**63 if self._loader.num_workers else None, index


class _Batches:
    """The dataset by batches; in a worker each begins with random states of its own."""

    def __init__(self, loader: Any) -> None:
        self.dataset, self._collate = loader.dataset, loader.collate_fn
        self._is_batched = loader.batch_sampler is not None

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not there yet: a copy that is being made
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: tuple[int | None, Any]) -> Any:
        seed, index = place
        if seed is not None:
            seed_all(seed)
        if not self._is_batched:
            return self._collate(self.dataset[index])
        at_once = getattr(self.dataset, "__getitems__", None)
        return self._collate(at_once(index) if at_once else [self.dataset[each] for each in index])


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


def _with_indices(loader: Any, indices: Iterable[Any]) -> Any:
    """The same loader, which takes its indices from us."""
    names = ["num_workers", "pin_memory", "timeout", "generator"]
    options: dict[str, Any] = {}
    if loader.num_workers:
        names += ["multiprocessing_context", "prefetch_factor", "persistent_workers", "in_order"]
        options["worker_init_fn"] = _WorkerStart(loader.worker_init_fn)
    options |= {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    # One index is a whole batch, which is put together already.
    return torch_module().utils.data.DataLoader(
        _Batches(loader), batch_size=None, sampler=indices, collate_fn=_as_it_is, **options
    )


def _as_it_is(batch: Any) -> Any:
    return batch
