"""The processes of one training agree: what one has heard, all do at the same step.

Alone, all of it is nothing. Together they have groups of their own, on the CPU, so that nothing
of it meets what the training itself sends. Only tensors of numbers are sent between them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.training.common import number, peer_seconds, torch_module


class Processes:
    """This process among those that train together."""

    def __init__(self) -> None:
        self._torch = torch = torch_module()
        self._dist = dist = torch.distributed
        self.rank, self.size = 0, 1
        if dist.is_available() and dist.is_initialized():
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
        count = number("WORLD_SIZE", "SLURM_STEP_NUM_TASKS") or 1
        if count > 1 and self.size == 1:
            raise UsageError(
                f"{count} processes run this training and do not know of each other, so that each "
                "would write the same checkpoints.",
                "Put it into `with distributed() as world:`, or ask for one: #SBATCH --ntasks=1",
            )
        several = self.size > 1
        wait = peer_seconds.get()
        options = {"backend": "gloo", "timeout": timedelta(seconds=wait) if wait else None}
        self._group = dist.new_group(**options) if several else None
        #: For what the write of a checkpoint says beside the training.
        self.beside = dist.new_group(**options) if several else None
        self._pending: tuple[Any, Any] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this process writes what is written once."""
        return self.rank == 0

    def agree(self, flags: Sequence[int], step: int = 0, *, wait: bool = True) -> list[int]:
        """The highest of each flag among all; without `wait` those of the call before.

        So nobody waits for the slowest at each step. All call it at the same steps.
        """
        if self._group is None:
            return list(flags)
        before = self._finished(len(flags))
        sent = self._torch.tensor([*flags, step, -step], dtype=self._torch.int64)
        work = self._dist.all_reduce(
            sent, self._dist.ReduceOp.MAX, group=self._group, async_op=True
        )
        self._pending = (work, sent)
        if not wait:
            return before
        return [max(pair) for pair in zip(before, self._finished(len(flags)), strict=True)]

    def _finished(self, count: int) -> list[int]:
        if self._pending is None:
            return [0] * count
        work, sent = self._pending
        self._pending = None
        work.wait()
        *flags, last, first = sent.tolist()
        if last != -first:
            raise UsageError(
                f"The processes are not at the same step: one at {-first}, one at {last}.",
                "Each must have as many batches as the others; world.sampler(data) sees to it.",
            )
        return [*flags, *[0] * count][:count]

    def gather(self, data: bytes, group: Any = None) -> list[bytes]:
        """What each process gave, in the order of their ranks; in the leader, [] elsewhere."""
        if self._group is None:
            return [data]
        torch, group = self._torch, group or self._group
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        self._dist.all_gather(sizes, torch.tensor([len(data)]), group=group)
        padded = torch.frombuffer(
            bytearray(data.ljust(max(1, *map(int, sizes)), b"\0")), dtype=torch.uint8
        )
        found = [torch.empty_like(padded) for _ in sizes] if self.is_leader else None
        self._dist.gather(padded, found, dst=0, group=group)
        pairs = zip(found or [], sizes, strict=False)
        return [each[: int(size)].numpy().tobytes() for each, size in pairs]

    def gather_states(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """The state of each process; in the leader, [] elsewhere."""
        if self._group is None:
            return [state]
        file = io.BytesIO()
        self._torch.save(state, file)
        found = self.gather(file.getvalue())
        return [self._torch.load(io.BytesIO(each), weights_only=True) for each in found]

    def any(self, flag: bool) -> bool:
        """Whether it is so in one of them; what `agree` is to say at the next step is passed by."""
        self._finished(0)
        return bool(self.agree([flag])[0])

    def _from_leader(self, data: bytes) -> bytes:
        torch, broadcast = self._torch, self._dist.broadcast
        size = torch.tensor([len(data)])
        broadcast(size, 0, group=self._group)
        buffer = bytearray(data if self.is_leader else int(size))
        broadcast(torch.frombuffer(buffer, dtype=torch.uint8), 0, group=self._group)
        return bytes(buffer)

    def lead(self, action: Callable[[], Any]) -> Any:
        """What the leader's `action` returns, as JSON can say it, in all; its failure as well."""
        if self._group is None:
            return action()
        answer: dict[str, Any] = {}
        failure: Exception | None = None
        if self.is_leader:
            try:
                answer = {"result": action()}
            except Exception as error:
                failure = error
                hint = error.hint if isinstance(error, HpcError) else ""
                answer = {"failure": (str(getattr(error, "message", error)), hint)}
        answer = json.loads(self._from_leader(json.dumps(answer).encode()))
        if failure is not None:
            raise failure
        if "failure" in answer:
            raise UsageError(*answer["failure"])
        return answer["result"]
