"""What a conformance check works on: a cluster, real or embedded, seen as one user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, Runner
from jupyter_hpc.slurm.allocate import SallocProgress, read_salloc, salloc_argv
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import FinishedJob, Job, Request
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.submit import BatchOptions
from tests.waiting import until

SLEEP = "#!/bin/sh\nsleep 300\n"


#: What Slurm writes into a job's output; 26.05 also writes lines that name no program.
_SLURMS_OWN = re.compile(r"srun: |slurmstepd|\[[0-9T:.-]+\] (error|debug)\S*: ")


def own_lines(lines: Iterable[str]) -> list[str]:
    """What the job itself has written."""
    return [line for line in lines if not _SLURMS_OWN.match(line)]


@dataclass
class Bench:
    """One cluster with the names that differ between the two."""

    name: str
    runner: Runner
    user: str
    uid: str
    gpu_node: str
    cpu_node: str
    gpu_type: str
    #: Every command that was run, for the table's last question.
    seen: list[tuple[str, ...]] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    #: A job that was started first, because it takes a minute to reach its time limit.
    late_job: str = ""

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run a command on the login host; a Bench is a Runner."""
        self.seen.append(tuple(argv))
        return await self.runner.run(argv, stdin=stdin, timeout=timeout)

    @property
    def client(self) -> SlurmClient:
        return SlurmClient(self)

    async def home(self) -> str:
        """The user's home folder on the login host."""
        return await self._shell('printf %s "$HOME"')

    async def _shell(self, script: str, *arguments: str) -> str:
        done = await self.runner.run(["sh", "-c", script, "sh", *arguments])
        assert done.ok, done.stderr
        return done.stdout

    async def read(self, path: str) -> str:
        return await self._shell('cat "$1"', path)

    async def printed(self, path: str, patience: float = 60) -> str:
        """What a job has written to its output file, once there is a line of it.

        The file appears some time after Slurm calls the job running.
        """
        text = ""

        async def look() -> bool:
            nonlocal text
            text = await self._shell('cat "$1" 2>/dev/null || true', path)
            return text.endswith("\n")

        await until(look, lambda: f"{path} has {text!r}", seconds=patience)
        return text

    async def write(self, path: str, text: str) -> None:
        done = await self.runner.run(["sh", "-c", 'cat >"$1"', "sh", path], stdin=text.encode())
        assert done.ok, done.stderr

    async def submit(
        self, script: str = SLEEP, options: BatchOptions | None = None, **request: object
    ) -> str:
        """Submit a job that `clear` will remove; returns its id."""
        asked = Request(**{"partition": "cpu", "time": "10", **request})  # type: ignore[arg-type]
        quiet = options or BatchOptions(output="/dev/null")
        job_id = (await self.client.submit(asked, script, quiet)).job_id
        self.seen.append(("sh", "-c", script))
        self.jobs.append(job_id)
        return job_id

    async def salloc(self, **request: object) -> tuple[SallocProgress, Completed]:
        """Ask for an allocation to its end, which is when it is granted or refused."""
        asked = Request(**{"time": "5", **request})  # type: ignore[arg-type]
        done = await self.run(salloc_argv(asked), timeout=120)
        progress = read_salloc(done.stderr)
        if progress.job_id:
            self.jobs.append(progress.job_id)
        return progress, done

    async def job(self, job_id: str) -> Job:
        found = await self.client.job(job_id)
        assert found is not None, f"job {job_id} is not in the queue"
        return found

    async def job_when(self, job_id: str, what: Callable[[Job], bool], patience: float = 60) -> Job:
        """The job once it looks as wanted."""
        found = None

        async def look() -> bool:
            nonlocal found
            found = await self.client.job(job_id)
            return found is not None and what(found)

        await until(look, lambda: f"job {job_id} is {found}", seconds=patience)
        assert found is not None
        return found

    async def running(self, job_id: str) -> Job:
        return await self.job_when(job_id, lambda job: job.phase is Phase.RUNNING)

    async def waiting_for(self, job_id: str, reason: str) -> Job:
        """The job once Slurm gives this reason."""
        return await self.job_when(job_id, lambda job: job.reason == reason)

    async def gone(self, job_id: str, patience: float = 60) -> None:
        """Wait until the job has left the queue."""

        async def look() -> bool:
            job = await self.client.job(job_id)
            return job is None or job.phase is Phase.ENDED

        await until(look, lambda: f"job {job_id} is still there", seconds=patience)

    async def record_of(self, job_id: str, patience: float = 60) -> FinishedJob:
        """What accounting says once the job has ended.

        It lags behind, and calls a job "allocation" until it knows better.
        """
        found: list[FinishedJob] = []

        async def look() -> bool:
            records = await self.client.finished([job_id])
            found[:] = [job for job in records if job_id in (job.id, job.job_id)]
            return any(job.phase is Phase.ENDED and job.name != "allocation" for job in found)

        await until(look, lambda: f"accounting says {found} of job {job_id}", seconds=patience)
        return found[0]

    async def clear(self) -> None:
        """Remove the jobs of the last check."""
        if self.jobs:
            await self.client.cancel(self.jobs)
            for job_id in self.jobs:
                await self.gone(job_id)
        self.jobs.clear()
