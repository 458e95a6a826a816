"""Training that outlives its time limit; importable without PyTorch, which its use needs.

docs/users/training.md shows how a plain loop becomes one that goes on.
"""

from __future__ import annotations

from jupyter_hpc.training.defaults import device, largest_batch, loader_options, prepare
from jupyter_hpc.training.framework import FrameworkRun
from jupyter_hpc.training.run import Run
from jupyter_hpc.training.world import World, distributed

__all__ = [
    "FrameworkRun",
    "Run",
    "World",
    "device",
    "distributed",
    "largest_batch",
    "loader_options",
    "prepare",
]
