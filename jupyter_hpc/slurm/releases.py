"""What we do differently from one release of Slurm to the next; every such decision is here.

Readers need no release: they take what any of them prints. Only where a command has to be
another one does it count, and then `sinfo --version` tells it; inside a batch script it is
`srun --version`, which asks nobody.
"""

from __future__ import annotations

import re

#: Year and month: (22, 5) for Slurm 22.05.8.
Release = tuple[int, int]

#: From here on --overlap shares GPUs, not only CPUs. Before, a step that asks for the job's
#: GPUs waits until the one that has them ends. BESIDE has the same bound.
_OVERLAP_SHARES_GPUS: Release = (22, 5)

#: From here on a step counts its GPUs by node. With --gpus it would wait for ever on a node that
#: has fewer of the job's GPUs than another one (24.11); before, --gpus-per-node is refused on a
#: node that has GPUs of several types (22.05).
_COUNTS_BY_NODE: Release = (23, 2)

#: The option of a step that waits for nobody's GPUs, and gets none.
NO_GPUS = "--gres=none"

#: Bash that sets $beside to what a step needs to run beside the one of the program, and
#: for the subshell of that step: srun takes what sbatch was asked for as its own, and refuses
#: NO_GPUS beside it ("Invalid Trackable RESource (TRES) specification", 20.11).
FORGET_GPUS = '[ -z "$beside" ] || unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK'
BESIDE = f"""\
# Before 22.05 two steps cannot have the same GPUs: the second would wait for the first.
case $(srun --version) in
*" 20."* | *" 21."*) beside={NO_GPUS} ;;
*) beside= ;;
esac
"""


def read_release(shown: str) -> Release | None:
    """The release in what `--version` of any of Slurm's commands prints."""
    found = re.search(r"(\d+)\.(\d+)", shown)
    return (int(found[1]), int(found[2])) if found else None


def release_name(release: Release) -> str:
    """The release as people write it: "22.05"."""
    return f"{release[0]}.{release[1]:02d}"


def shares_gpus(release: Release) -> bool:
    """Whether two steps of a job can have the same GPUs."""
    return release >= _OVERLAP_SHARES_GPUS


def step_gpus(gpus: int, release: Release | None) -> str:
    """The option of a step on one node that is to have so many GPUs of its job there."""
    if gpus == 0:
        return NO_GPUS
    by_node = release is not None and release >= _COUNTS_BY_NODE
    return f"--gpus-per-node={gpus}" if by_node else f"--gpus={gpus}"
