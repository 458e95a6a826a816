"""One process trains: several that write the same checkpoints are refused before they begin."""

from __future__ import annotations

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training.common import number, torch_module


def check_alone() -> None:
    """UsageError where this is one of several processes."""
    distributed = torch_module().distributed
    count = number("WORLD_SIZE", "SLURM_NTASKS") or 1
    if distributed.is_available() and distributed.is_initialized():
        count = distributed.get_world_size()
    if count > 1:
        raise UsageError(
            f"{count} processes run this training, and would write the same checkpoints.",
            "Run saves a training of one process: #SBATCH --ntasks=1",
        )
