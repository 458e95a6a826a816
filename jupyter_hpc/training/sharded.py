"""States of which each process has a part (FSDP), by PyTorch's own distributed checkpoints.

All processes write at the same time into one folder, each its part; any number of them reads it.
The index of such a folder is a pickle: it is read only after the checksum of each file.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from jupyter_hpc.training.common import torch_module
from jupyter_hpc.training.processes import Processes
from jupyter_hpc.training.store import CheckpointStore, checksum

Content = dict[str, Any]


class ShardedParts:
    """The models of a run that are spread over its processes, and their optimizers."""

    def __init__(self, parts: Content) -> None:
        models = {name: part for name, part in parts.items() if is_sharded(part)}
        #: Name -> a model, and its optimizer if it is the name of that.
        self._parts: dict[str, tuple[Any, Any]] = {name: (models[name], None) for name in models}
        for name, part in parts.items():
            if isinstance(part, torch_module().optim.Optimizer):
                own = {id(each) for group in part.param_groups for each in group["params"]}
                for model in models.values():
                    if own & {id(each) for each in model.parameters()}:
                        self._parts[name] = (model, part)
        #: The parts that this is about.
        self.names = set(self._parts)

    def states(self, names: Collection[str] | None = None) -> Content:
        """The part of this process, tied to the models; of these, or of all that have a state.

        An optimizer that has taken no step is left out: asked for its state it takes one.
        """
        from torch.distributed.checkpoint import state_dict

        found = {}
        for name, (model, optimizer) in self._parts.items():
            if names is not None and name not in names:
                continue
            if optimizer is None:
                found[name] = state_dict.get_model_state_dict(model)
            elif names is not None or optimizer.state:
                found[name] = state_dict.get_optimizer_state_dict(model, optimizer)
        return found

    def load(self, folder: Path, names: Collection[str], processes: Processes) -> None:
        """Each process its part, however many had written it."""
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint import state_dict

        found = self.states(names)
        reader = checkpoint.FileSystemReader(folder)
        checkpoint.load(found, storage_reader=reader, process_group=processes.beside)
        for name, state in found.items():
            model, optimizer = self._parts[name]
            if optimizer is None:
                state_dict.set_model_state_dict(model, state)
            else:
                state_dict.set_optimizer_state_dict(model, optimizer, state)


def is_sharded(part: Any) -> bool:
    """Whether each process has only a part of this module."""
    torch = torch_module()
    dist = torch.distributed
    if not (isinstance(part, torch.nn.Module) and dist.is_available() and dist.is_initialized()):
        return False
    from torch.distributed.fsdp import FullyShardedDataParallel

    return any(isinstance(each, FullyShardedDataParallel) for each in part.modules()) or any(
        hasattr(each, "to_local") for each in part.parameters()
    )


def write_parts(
    store: CheckpointStore, name: str, states: Content, processes: Processes
) -> dict[str, tuple[int, int]]:
    """Write the folder of a checkpoint, each process its part; the files, in the leader."""
    from torch.distributed import checkpoint

    draft = store.drafts / name
    writer = checkpoint.FileSystemWriter(draft)
    checkpoint.save(states, storage_writer=writer, process_group=processes.beside)
    own = [path for path in draft.glob(f"__{processes.rank}_*")]
    own += [draft / ".metadata"] if processes.is_leader else []
    found = {f"{name}/{path.name}": checksum(path) for path in own}
    answers = processes.gather(json.dumps(found).encode(), processes.beside)
    return {key: tuple(value) for each in answers for key, value in json.loads(each).items()}
