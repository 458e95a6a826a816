"""Where batch commands run."""

from __future__ import annotations

import pytest

from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.errors import CommandMissing


async def test_a_laptop_without_slurm_is_told_to_name_the_cluster() -> None:
    with pytest.raises(CommandMissing, match=r"not found.*--on NAME\. Look there\."):
        async with open_host(None):
            raise CommandMissing("The command 'sbatch' was not found.", "Look there.")
