"""The head of a batch script: its `#SBATCH` lines.

What a job asks of sbatch is decided here; how an option is spelled is known to slurm/.
"""

from __future__ import annotations

from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.slurm import jobtext
from jupyter_hpc.slurm.submit import BatchOptions, header_lines


def header_text(job: BatchJob) -> str:
    """The first line of the script and one `#SBATCH` line for each option."""
    shell = "#!/bin/bash -l" if job.environment.login_shell else "#!/bin/bash"
    return "\n".join([shell, *header_lines(job.request, batch_options(job))]) + "\n"


def batch_options(job: BatchJob) -> BatchOptions:
    """What the job needs of sbatch besides its resources."""
    array = None
    if job.sweep:
        array = jobtext.sweep_array(len(job.sweep), job.at_once)
    elif job.chain:
        array = jobtext.chain_array(job.chain)
    name = "%A_%a.out" if array else "%j.out"
    folder = jobtext.safe_pattern(job.log_dir or f"{job.run_dir}/logs")
    return BatchOptions(
        output=f"{folder}/{name}",
        work_dir=job.work_dir,
        array=array,
        signal=jobtext.warning_signal(job.warning),
        dependency=_dependency(job),
        requeue=job.goes_on and not job.in_array,
        open_append=True,
    )


def _dependency(job: BatchJob) -> str | None:
    chains = [each.job_id for each in job.after_chains]
    return jobtext.after([name for name in job.after if name not in chains], chains) or None
