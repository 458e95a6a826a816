"""Where a job's files are, as Slurm says it; only for the user's own jobs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from posixpath import join

from jupyter_hpc.errors import HpcError
from jupyter_hpc.gpu.recording import FILE_NAME
from jupyter_hpc.slurm.filenames import default_output, output_path, patterns
from jupyter_hpc.slurm.hostlist import expand as expand_hostlist
from jupyter_hpc.slurm.models import FinishedJob, JobDetail

#: So many jobs are remembered: a finished job's paths cannot be asked for again.
MAX_JOBS_REMEMBERED = 500


@dataclass(frozen=True)
class JobFiles:
    """Absolute paths; None where the job has no such file.

    `run_dir` is the folder of a run that this product submitted. `guessed` is true when
    the job had ended before anybody looked, so that only Slurm's default names can be
    tried.
    """

    job_id: str
    stdout: str | None
    stderr: str | None
    work_dir: str | None
    script: str | None = None
    guessed: bool = False
    run_dir: str | None = None

    def recordings(self) -> list[Path]:
        """Where a GPU recording of the job may be, the likeliest first."""
        task = self.job_id.partition("_")[2]
        output = join(self.run_dir, "output") if self.run_dir else ""
        folders = [join(output, task) if task and output else "", output, self.work_dir]
        return [Path(folder) / FILE_NAME for folder in folders if folder]


def with_run(files: JobFiles, run_dir: str) -> JobFiles:
    """The files of a job whose run folder is known; it also says where the log was.

    A run keeps its logs as logs/JOB.out, or logs/ARRAY_TASK.out in an array.
    """
    files = replace(files, run_dir=run_dir)
    if not files.guessed:
        return files
    log = join(run_dir, "logs", f"{files.job_id}.out")
    return replace(files, stdout=log, stderr=log, guessed=False)


def files_of_detail(detail: JobDetail) -> JobFiles:
    """The files of a job that Slurm still remembers."""
    raw_id = detail.fields.get("JobId") or detail.id
    values = patterns(
        job_id=raw_id,
        name=detail.name,
        user=detail.user,
        node=detail.batch_host or _first_node(detail.nodes),
        array_id=detail.array_id,
        array_task=detail.array_task,
    )

    def path(pattern: str) -> str | None:
        return output_path(pattern, values, detail.work_dir) if pattern else None

    script = detail.command if detail.command.startswith("/") else ""
    return JobFiles(
        job_id=detail.id,
        stdout=path(detail.stdout),
        stderr=path(detail.stderr),
        work_dir=detail.work_dir or None,
        script=script or None,
    )


def files_of_finished(job: FinishedJob) -> JobFiles:
    """The default names for a job that Slurm's controller has forgotten."""
    array_id, underscore, task = job.id.partition("_")
    values = patterns(
        job_id=job.job_id,
        name=job.name,
        user=job.user,
        array_id=array_id if underscore else None,
        array_task=task if underscore else None,
    )
    output = (
        default_output(job.work_dir, values, in_array=bool(underscore)) if job.work_dir else None
    )
    return JobFiles(job.id, output, output, job.work_dir or None, guessed=True)


class RememberedFiles:
    """Paths of jobs that were seen while Slurm knew them."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, JobFiles] = OrderedDict()

    def remember(self, files: JobFiles) -> None:
        """Keep these paths; the oldest are forgotten first."""
        self._files[files.job_id] = files
        self._files.move_to_end(files.job_id)
        while len(self._files) > MAX_JOBS_REMEMBERED:
            self._files.popitem(last=False)

    def get(self, job_id: str) -> JobFiles | None:
        """The paths of a job that has been seen."""
        return self._files.get(job_id)


def _first_node(nodes: str) -> str:
    try:
        return next(iter(expand_hostlist(nodes)), "") if nodes else ""
    except HpcError:
        return ""
