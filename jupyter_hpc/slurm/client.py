"""SlurmClient: one async method per verb, over any runner.

Each verb builds its argv, runs it with a deadline, reads the answer and turns a
failure into an error of `jupyter_hpc.errors`. It keeps nothing between calls:
caching and polite polling belong to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from jupyter_hpc.errors import (
    AccountingDisabled,
    CommandError,
    CommandTimeout,
    HpcError,
    JobNotFound,
    SlurmError,
    SlurmUnavailable,
    SubmitRejected,
    UnreadableAnswer,
)
from jupyter_hpc.runner import Completed, Runner
from jupyter_hpc.slurm import (
    accounting,
    advice,
    allocate,
    associations,
    inventory,
    jobcontrol,
    jobstats,
    occupancy,
    queue,
    refusals,
    showjob,
    sstat,
    submit,
)
from jupyter_hpc.slurm.failures import failure, raise_failure
from jupyter_hpc.slurm.jobstats import SiteUse
from jupyter_hpc.slurm.models import (
    Association,
    Estimate,
    FinishedJob,
    FinishedStep,
    Job,
    JobDetail,
    Partition,
    Qos,
    Request,
    Share,
    Submitted,
    Usage,
)
from jupyter_hpc.slurm.overview import Overview
from jupyter_hpc.slurm.releases import Release, read_release
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.submit import BatchOptions
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import together

_log = logging.getLogger(__name__)

#: Longer answers are read in a thread: ten thousand rows take a second, and the event
#: loop of a server must not wait for them.
LONG_ANSWER_CHARACTERS = 100_000

#: A throttled client sleeps and retries for ever, so every call has an end.
QUERY_TIMEOUT = 30.0
ACTION_TIMEOUT = 60.0

_MAY_EXIST = "The job may have been submitted all the same: look at the queue before trying again."

_Value = TypeVar("_Value")


async def _read(read: Callable[[str], list[_Value]], text: str) -> list[_Value]:
    return read(text) if len(text) < LONG_ANSWER_CHARACTERS else await asyncio.to_thread(read, text)


async def _given(value: Sequence[_Value]) -> list[_Value]:
    return list(value)


class SlurmClient:
    """Slurm as seen by one user through `runner`."""

    def __init__(self, runner: Runner, *, timeout: float = QUERY_TIMEOUT) -> None:
        self._runner = runner
        self._timeout = timeout

    async def version(self) -> Release:
        """(22, 5) for Slurm 22.05.8."""
        done = await self._ask(["sinfo", "--version"])
        found = read_release(done.stdout)
        if found is None:
            raise UnreadableAnswer(
                f"sinfo says {printable(done.stdout, 80)!r} when asked for its version.", ""
            )
        return found

    async def my_jobs(self, *, name: str | Sequence[str] | None = None) -> list[Job]:
        """The caller's own waiting and running jobs, all or those with that name or names."""
        names = [name] if isinstance(name, str) else list(name or [])
        # squeue takes a list of names, so one with a comma can only be compared here
        asked = ",".join(names) if name and not any("," in one for one in names) else None
        done = await self._ask(queue.jobs_argv(name=asked))
        jobs = await _read(queue.read_jobs, done.stdout)
        return [job for job in jobs if name is None or job.name in names]

    async def recent_jobs(self) -> list[Job]:
        """`my_jobs`, and those that ended in the last minutes: accounting may lag behind."""
        done = await self._ask(queue.jobs_argv(ended=True))
        return await _read(queue.read_jobs, done.stdout)

    async def job(self, job_id: str) -> Job | None:
        """One of the caller's jobs, None once it has left the queue."""
        done = await self._run(queue.jobs_argv(ids=[job_id]))
        if not done.ok:
            error = failure(done, job_id)
            if isinstance(error, JobNotFound):
                return None
            raise error
        jobs = queue.read_jobs(done.stdout)
        return next((job for job in jobs if job_id in (job.id, job.job_id)), None) or next(
            iter(jobs), None
        )

    async def job_detail(self, job_id: str) -> JobDetail:
        """What scontrol knows; JobNotFound some minutes after the job's end."""
        done = await self._ask(showjob.show_job_argv(job_id), job_id=job_id)
        details = showjob.read_details(done.stdout)
        if not details:
            raise_failure(done, job_id)
        return next((found for found in details if found.id == job_id), details[0])

    async def node_gpus(self, job_id: str) -> dict[str, int]:
        """How many GPUs the job has on each of its nodes; {} if Slurm does not say."""
        done = await self._ask(showjob.show_nodes_argv(job_id), job_id=job_id)
        return showjob.read_node_gpus(done.stdout)

    async def estimated_start(self, job_id: str) -> Estimate | None:
        """When the scheduler expects a pending job to start, if it can say."""
        done = await self._ask(queue.start_argv([job_id]), job_id=job_id)
        return next(iter(queue.read_starts(done.stdout).values()), None)

    async def cancel(self, ids: Sequence[str]) -> None:
        """Cancel jobs, array tasks or whole arrays."""
        await self._act(jobcontrol.cancel_argv(ids), ids)

    async def hold(self, ids: Sequence[str]) -> None:
        await self._act(jobcontrol.hold_argv(ids), ids)

    async def release(self, ids: Sequence[str]) -> None:
        await self._act(jobcontrol.release_argv(ids), ids)

    async def requeue(self, ids: Sequence[str]) -> None:
        await self._act(jobcontrol.requeue_argv(ids), ids)

    async def rename(self, job_id: str, name: str) -> None:
        """Give a waiting or running job another name."""
        await self._act(jobcontrol.rename_argv(job_id, name), [job_id])

    async def history(self, seconds: int) -> list[FinishedJob]:
        """The caller's jobs that ended in the last `seconds`, newest last."""
        done = await self._ask(accounting.history_argv(seconds))
        found = await _read(accounting.read_finished, done.stdout)
        return [job for job in found if job.phase is Phase.ENDED]

    async def finished(self, ids: Sequence[str], *, steps: bool = True) -> list[FinishedJob]:
        """What accounting knows of these jobs, ended or not, with what they used."""
        done = await self._ask(accounting.finished_argv(ids, steps=steps), job_id=", ".join(ids))
        return accounting.read_finished(done.stdout)

    async def steps(self, job_id: str) -> list[FinishedStep]:
        """What accounting knows of the steps of a job, ended or not."""
        done = await self._ask(accounting.finished_argv([job_id]), job_id=job_id)
        return accounting.read_steps(done.stdout)

    async def usage(self, job_id: str) -> Usage | None:
        """What the running job with this plain number has used so far; None where unknown."""
        done = await self._ask(sstat.usage_argv(job_id), job_id=job_id)
        return sstat.read_usage(done.stdout, job_id)

    async def site_use(self, job_id: str) -> SiteUse | None:
        """What the site itself has measured of a job, where it runs jobstats."""
        done = await self._ask(jobstats.comment_argv(job_id), job_id=job_id)
        return jobstats.read_comment(done.stdout, job_id)

    async def partitions(self) -> list[Partition]:
        """Every partition that the caller can see, with its limits and its GPUs."""
        shown, groups = await together(
            self._ask(inventory.partitions_argv()), self._ask(inventory.groups_argv())
        )
        return inventory.read_partitions(shown.stdout, groups.stdout)

    async def associations(self, user: str | None = None) -> list[Association]:
        """The accounts of `user`, by default of the caller."""
        if user is None:
            user = (await self._ask(["id", "-un"])).stdout.strip()
        done = await self._ask(associations.associations_argv(user))
        return associations.read_associations(done.stdout)

    async def qos(self) -> list[Qos]:
        """Every QOS of the site, with its limits."""
        done = await self._ask(associations.qos_argv())
        return associations.read_qos(done.stdout)

    async def shares(self) -> list[Share]:
        """The caller's share and use of each account."""
        done = await self._ask(associations.shares_argv())
        return associations.read_shares(done.stdout)

    async def overview(self, partitions: Sequence[Partition] | None = None) -> Overview:
        """What is free now, and the caller's accounts, which leave a problem if not told."""
        problems: list[str] = []

        async def known(asking: Awaitable[list[_Value]]) -> list[_Value]:
            try:
                return await asking
            except AccountingDisabled:
                return []  # there is nothing to know
            except HpcError as error:
                problems.append(error.message)
                return []

        shown, limits, accounts, shares = await together(
            self._ask(occupancy.use_argv()),
            self.partitions() if partitions is None else _given(partitions),
            known(self.associations()),
            known(self.shares()),
        )
        return occupancy.read_overview(shown.stdout, limits, accounts, shares, problems)

    async def check_limits(self, request: Request) -> list[Partition]:
        """The partitions; SubmitRejected for what would wait for ever.

        None, and no objection, where the limits are not told.
        """
        partitions: list[Partition] = []
        try:
            partitions = await self.partitions()
            await self.check(request, partitions)
        except SubmitRejected:
            raise
        except (SlurmError, CommandError) as error:
            _log.info("the limits of the partitions are not known: %s", error.message)
        return partitions

    async def check(self, request: Request, partitions: Sequence[Partition]) -> None:
        """SubmitRejected where the limits of the partitions rule the request out.

        Sites may let such a job into the queue, where it waits for ever.
        """
        found = await self.ruled_out(request, partitions)
        if found:
            raise SubmitRejected(
                " ".join(problem.text for problem in found),
                " ".join(problem.advice for problem in found),
            )

    async def ruled_out(
        self, request: Request, partitions: Sequence[Partition]
    ) -> list[advice.Problem]:
        """What the partitions' limits rule out, and the job's QOS does not set aside."""
        found = advice.problems(request, partitions)
        if advice.may_be_lifted(found):
            with contextlib.suppress(HpcError):
                accounts = [] if request.qos else await self.associations()
                found = advice.problems(request, partitions, await self.qos(), accounts)
        return found

    async def test_only(
        self, request: Request, script: str, options: BatchOptions | None = None
    ) -> Estimate:
        """When and where the job could start; SubmitRejected if it never could.

        The time limit is to be compared with the partition's as well
        (`advice.problems`): not every site lets Slurm do that here.
        """
        argv = submit.sbatch_argv(request, options, test_only=True)
        done = await self._runner.run(argv, stdin=script.encode(), timeout=ACTION_TIMEOUT)
        estimate = submit.read_test_only(done.stderr) if done.ok else None
        if estimate is None:
            raise await self._submit_failure(request, done)
        return estimate

    async def submit(
        self, request: Request, script: str, options: BatchOptions | None = None
    ) -> Submitted:
        """Submit the text of a batch script."""
        argv = submit.sbatch_argv(request, options)
        return await self._submitted(request, argv, script.encode())

    async def submit_file(
        self,
        path: str,
        arguments: Sequence[str] = (),
        request: Request | None = None,
        options: BatchOptions | None = None,
    ) -> Submitted:
        """Submit a script that lies on the cluster, with its own #SBATCH lines."""
        argv = submit.sbatch_argv(request, options, script=path, arguments=arguments)
        return await self._submitted(request or Request(), argv, None)

    async def keep_alive(self, request: Request) -> Submitted:
        """An allocation without salloc: a batch job that does nothing but exist."""
        return await self.submit(request, allocate.keep_alive_script(), allocate.KEEP_ALIVE)

    async def inactive_limit(self) -> int:
        """Seconds after which this site ends an allocation without a shell; 0: never."""
        done = await self._ask(allocate.config_argv())
        return allocate.read_inactive_limit(done.stdout)

    async def select_type(self) -> str:
        """Who hands out nodes and their parts, such as `cons_tres`; "" if that is not told."""
        done = await self._ask(allocate.config_argv())
        return allocate.read_select_type(done.stdout)

    async def explain_rejection(self, request: Request, said: str) -> HpcError:
        """What salloc or sbatch said, in words, with what this cluster allows instead."""
        unavailable = failure(Completed(("sbatch",), 1, "", said))
        if isinstance(unavailable, SlurmUnavailable):
            return unavailable
        refusal = refusals.explain_refusal(said, request)
        hint = " ".join(filter(None, [refusal.advice, await self._allowed(request, refusal)]))
        text = f"{refusal.text} It says: {refusal.site}" if refusal.site else refusal.text
        return SubmitRejected(text, hint)

    async def _allowed(self, request: Request, refusal: refusals.Refusal) -> str:
        """What is allowed, as far as the cluster tells; this must not hide the refusal."""
        partitions: list[Partition] = []
        mine: list[Association] = []
        limits: list[Qos] = []
        if not refusal.option:
            return ""
        if refusal.option in ("account", "qos"):
            with contextlib.suppress(HpcError):
                mine = await self.associations()
        elif refusal.option == "limits":
            with contextlib.suppress(HpcError):
                limits = await self.qos()
        else:
            with contextlib.suppress(HpcError):
                partitions = await self.partitions()
        found = advice.problems(request, partitions) if refusal.option == "request" else []
        if found:
            return " ".join(f"{problem.text} {problem.advice}" for problem in found)
        return advice.allowed(refusal.option, request, partitions, mine, limits)

    async def _submitted(
        self, request: Request, argv: list[str], script: bytes | None
    ) -> Submitted:
        try:
            done = await self._runner.run(argv, stdin=script, timeout=ACTION_TIMEOUT)
        except CommandTimeout as error:
            raise SlurmUnavailable(error.message, _MAY_EXIST) from error
        if not done.ok:
            failed = await self._submit_failure(request, done)
            if isinstance(failed, SlurmUnavailable) and "timed out" in done.stderr:
                raise SlurmUnavailable(failed.message, _MAY_EXIST)
            raise failed
        return submit.read_submitted(done.stdout, done.stderr)

    async def _submit_failure(self, request: Request, done: Completed) -> HpcError:
        if done.returncode == 127:
            return failure(done)
        return await self.explain_rejection(request, done.stderr)

    async def _act(self, argv: list[str], ids: Sequence[str]) -> None:
        if not ids:
            return
        done = await self._runner.run(argv, timeout=max(self._timeout, ACTION_TIMEOUT))
        if not done.ok:
            raise_failure(done, ", ".join(ids))

    async def _ask(self, argv: list[str], *, job_id: str | None = None) -> Completed:
        done = await self._run(argv)
        if not done.ok:
            raise_failure(done, job_id)
        return done

    async def _run(self, argv: list[str]) -> Completed:
        return await self._runner.run(argv, timeout=self._timeout)
