"""A trial from where no session is: a short job that is waited for and given back in any case."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import replace

import click

from jupyter_hpc.batch.runs.endings import ending_of
from jupyter_hpc.batch.submit import submit as batch
from jupyter_hpc.batch.submit.choices import Choices, job_request
from jupyter_hpc.batch.submit.folders import Overwritten
from jupyter_hpc.batch.trial.here import Progress, read_progress
from jupyter_hpc.batch.trial.job import (
    end_of_log,
    look,
    remove_trial,
    submit_trial,
    trial_job,
    trial_request,
)
from jupyter_hpc.batch.trial.measured import IN_JOB, Measured, TrialFailed, read_result
from jupyter_hpc.batch.trial.plan import Trial
from jupyter_hpc.cli.hosts import Host
from jupyter_hpc.cli.job_upload import sending
from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.endings import cancel_for_sure
from jupyter_hpc.errors import HpcError, SubmitRejected
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase, Request
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.text import duration, memory_size, printable

#: The presets that sites have for short jobs, best first.
_SHORT = ("trial", "debug", "test", "short")
#: Between two looks: at first, and later unless the site asks for more.
_POLL_SECONDS = (1.0, 10.0)
#: In the queue, and for what the cluster may be silent.
_MAX_WAIT_SECONDS = 4 * 3600.0
_MAX_SILENCE_SECONDS = 900.0
#: A result on a shared disk is seen some seconds after the end of its job.
_FILES_SECONDS = 10.0


class Teller:
    """Says on stderr what a trial does, each thing once."""

    def __init__(self) -> None:
        self._said = ""

    def tell(self, text: str) -> None:
        if text and text != self._said:
            self._said = text
            click.echo(printable(text), err=True)

    def progress(self, now: Progress) -> None:
        """How far it is: for a person each epoch, else only which run."""
        if not now.run:
            return
        text = f"Run {now.run} of {now.runs}, with {now.epochs} epoch{'s' * (now.epochs > 1)}"
        if sys.stderr.isatty():
            if now.epoch is not None:
                text += f"; it says epoch {now.epoch}"
            else:
                text += f", {duration(now.seconds // 30 * 30)} so far" * (now.seconds >= 30)
            if text != self._said:
                self._said = text
                click.echo(printable(f"{text}, {memory_size(now.memory / 2**20)}."), err=True)
            return
        self.tell(f"{text}.")


async def in_short_job(
    trial: Trial, choices: Choices, options: batch.SubmitOptions, host: Host, client: SlurmClient
) -> Measured:
    """What a job of minutes measures; it is over, and its files are gone, on every way out."""
    prepared, seconds = await _asked(trial, choices, options, host, client)
    job, teller = prepared.job, Teller()
    poll = host.profile.slurm.poll_seconds if host.profile is not None else 0.0
    limit = f"{job.request.time} at most"
    where = f" in partition {job.request.partition}" if job.request.partition else ""
    cost = f" It costs at most {prepared.cost}." if prepared.cost is not None else ""
    asking = asyncio.ensure_future(
        submit_trial(job, prepared.files, host.runner, client, sending(host))
    )
    try:
        job_id = await asyncio.shield(asking)
        teller.tell(
            f"Job {job_id} tries it{where}: {limit}, given back as soon as it is over.{cost}"
        )
        await _until_over(job_id, job.run_dir, host, client, poll, teller)
        return await _result(job_id, job.run_dir, host, client, seconds)
    finally:
        # Also where somebody gives up while it is being asked for.
        with contextlib.suppress(HpcError):
            job_id = await asking
            await asyncio.shield(_given_back(job_id, job.run_dir, host, client, limit))


async def _asked(
    trial: Trial, choices: Choices, options: batch.SubmitOptions, host: Host, client: SlurmClient
) -> tuple[batch.Prepared, float]:
    """The job, held against the cluster: where a short job may run, else where the whole would."""
    profile, request = host.profile, trial.job.request
    least = profile.limits.min_time if profile is not None else None
    short = _short_request(choices, profile)
    for preset in (short, None) if short is not None else (None,):
        small, wanted = trial_request(request, preset, trial.wanted, least)
        job, files = trial_job(trial, small, wanted)
        one = batch.prepared_job(trial.conversion, job, files, (), options, Overwritten())
        try:
            # What is uploaded is in the files of the trial, with no word of the runs that are
            # listed.
            return replace(await batch.estimated(one, client), files=files), wanted.seconds
        except SubmitRejected:
            if preset is None:
                raise
    raise AssertionError  # the last of them returns or raises


def _short_request(choices: Choices, profile: Profile | None) -> Request | None:
    """What the site's preset for short jobs asks for, if it has one."""
    if profile is None:
        return None
    for name in _SHORT:
        if name in profile.presets and profile.presets[name].use != "connect":
            given = {key: value for key, value in choices.request.items() if key != "time"}
            try:
                return job_request(replace(choices, preset=name, request=given), profile)
            except HpcError:
                return None
    return None


async def _until_over(
    job_id: str, run_dir: str, host: Host, client: SlurmClient, poll: float, teller: Teller
) -> None:
    """Until the job is over; TrialFailed if it does not start in hours."""
    pause, longest = _POLL_SECONDS[0], max(_POLL_SECONDS[1], poll)
    began = heard = time.monotonic()
    started = False
    while True:
        try:
            job = await client.job(job_id)
            heard = time.monotonic()
            if job is None or job.phase in (Phase.ENDING, Phase.ENDED):
                return
            if not started and job.phase is Phase.RUNNING:
                started, pause = True, _POLL_SECONDS[0]
            _tell_job(job, teller)
            if started:
                told, result = await look(host.runner, run_dir)
                teller.progress(read_progress(told))
                if result:
                    return
        except HpcError as error:
            if not error.transient or time.monotonic() - heard > _MAX_SILENCE_SECONDS:
                raise
        if not started and time.monotonic() - began > _MAX_WAIT_SECONDS:
            raise TrialFailed(
                f"The trial did not start within {duration(_MAX_WAIT_SECONDS)}.",
                "Try it when the queue is shorter, in a session, or give --time yourself.",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.3, longest if not started else _POLL_SECONDS[1])


def _tell_job(job: Job, teller: Teller) -> None:
    if job.phase is Phase.PENDING and job.reason:
        teller.tell(f"Job {job.job_id} waits: {explain_reason(job.reason).text}")


async def _result(
    job_id: str, run_dir: str, host: Host, client: SlurmClient, seconds: float
) -> Measured:
    end = time.monotonic() + _FILES_SECONDS
    _, result = await look(host.runner, run_dir)
    while not result and time.monotonic() < end:
        await asyncio.sleep(1.0)
        _, result = await look(host.runner, run_dir)
    log = await end_of_log(host.runner, run_dir, job_id)
    if not result:  # ended from outside: by its time limit, for want of memory, by a person
        cause, _ = await ending_of(host.runner, client, job_id)
        if cause:
            raise TrialFailed(f"The trial's job {job_id} has no result. {cause}", "")
    return read_result(result, seconds, log, IN_JOB)


async def _given_back(
    job_id: str, run_dir: str, host: Host, client: SlurmClient, limit: str
) -> None:
    """Nothing of it waits, runs or lies there any more, or it is said."""

    def say(text: str) -> None:
        click.echo(printable(text), err=True)

    try:
        await cancel_for_sure(client, job_id)
    except HpcError as error:
        say(
            f"Whether the trial's job {job_id} is over could not be heard: {error.message} It ends "
            f"by itself ({limit}). To end it: jupyter-hpc cancel {job_id}"
        )
        return
    try:
        removed = await remove_trial(host.runner, run_dir)
    except HpcError:
        removed = False
    if not removed:
        say(f"The files of the trial are left in {run_dir} on the cluster.")
