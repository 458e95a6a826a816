"""All jobs that are known: living ones and the history, with their numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from jupyter_hpc.demo.slurm.jobs import Job
from jupyter_hpc.demo.slurm.units import read_numbers

#: Finished jobs that sacct still knows; older ones are forgotten.
MAX_JOBS_KEPT = 10_000


class JobTable:
    """The list of jobs and the ways to find one."""

    def __init__(self, first_id: int, min_job_age: float, on_id: Callable[[int], None]) -> None:
        self._jobs: list[Job] = []
        self._next_id = first_id
        self._min_job_age = min_job_age
        self._on_id = on_id

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def add(self, jobs: list[Job]) -> None:
        self._jobs += jobs
        if len(self._jobs) > MAX_JOBS_KEPT:
            old = [job for job in self._jobs if job.done][: len(self._jobs) - MAX_JOBS_KEPT]
            gone = set(old)
            self._jobs = [job for job in self._jobs if job not in gone]

    def new_id(self) -> int:
        """The next job number; `on_id` learns which one follows it."""
        number = self._next_id
        self._next_id += 1
        self._on_id(self._next_id)
        return number

    def family(self, number: int) -> list[Job]:
        """All tasks of an array."""
        return [job for job in self._jobs if job.array and job.array.job_id == number]

    def give_own_id(self, job: Job) -> None:
        """Give an array task a job id; the last one takes that of the array."""
        if job.has_own_id or job.array is None:
            return
        others = [other for other in self.family(job.array.job_id) if other is not job]
        if any(not other.has_own_id for other in others):
            job.id = self.new_id()
        job.has_own_id = True

    def remembered(self) -> list[Job]:
        """The jobs that squeue and scontrol still know."""
        oldest = time.time() - self._min_job_age
        return [job for job in self._jobs if not job.done or job.end > oldest]

    def find(self, text: str) -> list[Job]:
        """The jobs that "5", "5_3" or "5_[1-3]" names; an array's number names all its tasks."""
        number, _, tasks = text.partition("_")
        if not number.isdigit():
            return []
        family = self.family(int(number))
        if not tasks:
            return family or [job for job in self._jobs if job.id == int(number)]
        wanted = read_numbers(tasks.strip("[]").partition("%")[0]) or []
        return [job for job in family if job.array and job.array.task in wanted]

    def by_id(self, number: int) -> Job | None:
        """The one job, or array task, that carries this number itself."""
        own = (job for job in self._jobs if job.id == number and job.has_own_id)
        return next(own, None)
