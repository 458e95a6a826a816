"""The commands of the work-alike by name."""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_hpc.demo.slurm.sacct import sacct
from jupyter_hpc.demo.slurm.sacctmgr import sacctmgr
from jupyter_hpc.demo.slurm.salloc import salloc
from jupyter_hpc.demo.slurm.sbatch import sbatch
from jupyter_hpc.demo.slurm.scancel import scancel
from jupyter_hpc.demo.slurm.scontrol import scontrol
from jupyter_hpc.demo.slurm.server import Command
from jupyter_hpc.demo.slurm.sinfo import sinfo
from jupyter_hpc.demo.slurm.squeue import squeue
from jupyter_hpc.demo.slurm.srun import srun
from jupyter_hpc.demo.slurm.sshare import sshare
from jupyter_hpc.demo.slurm.sstat import sstat

COMMANDS: Mapping[str, Command] = {
    "sacct": sacct,
    "sacctmgr": sacctmgr,
    "salloc": salloc,
    "sbatch": sbatch,
    "scancel": scancel,
    "scontrol": scontrol,
    "sinfo": sinfo,
    "squeue": squeue,
    "srun": srun,
    "sshare": sshare,
    "sstat": sstat,
}
