"""A check-up of everything between this computer and a JupyterLab in a job, stage by stage.

Each stage takes what the one before has found; after one that failed, the rest is said to be
skipped. Nothing is changed on either side: at most one small job is asked for, and given back.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc import __version__
from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.doctor.checks import CHECKS, IN_A_JOB, Check, Report
from jupyter_hpc.connect.doctor.login_host import look_at_login_host, look_at_shell
from jupyter_hpc.connect.doctor.network import look_at_network
from jupyter_hpc.connect.doctor.node import NodeCheck
from jupyter_hpc.connect.doctor.request import look_at_slurm
from jupyter_hpc.connect.doctor.sign_in import look_at_credentials, look_at_forwarding, sign_in
from jupyter_hpc.connect.job.remote import STATE_FOLDER
from jupyter_hpc.connect.job.short_job import (
    WAIT_SECONDS,
    GivenBack,
    JobNeverRan,
    Wanted,
    short_job,
    small_requests,
)
from jupyter_hpc.connect.ssh.interfaces import LoginConnection
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.tunnel.transports import Connections
from jupyter_hpc.errors import HpcError, ProfileError, UsageError
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import together


@dataclass(frozen=True)
class Examination:
    """One check-up of the cluster of a profile.

    `show` gets each line as soon as it is known; `tell` what else a person should know
    meanwhile. With `job` one small job is asked for, and waited for so many seconds.
    """

    profile: Profile
    prompter: Prompter
    show: Callable[[Check], None]
    tell: Callable[[str], None]
    job: bool = True
    wait_seconds: float = WAIT_SECONDS

    async def run(self) -> Report:
        """Every check, in its order; the report has a line for each."""
        report = Report(self.show)
        try:
            await self._look(report)
        finally:
            report.show_rest()
        return report

    async def _look(self, report: Report) -> None:
        system = f"{platform.system()} {platform.machine()}"
        python = ".".join(map(str, sys.version_info[:3]))
        report.ok("laptop", f"jupyter-hpc {__version__}, Python {python}, {system}.")
        try:
            self.profile.check_usable()
        except ProfileError as error:
            report.error("profile", error)
            report.skip_after("profile")
            return
        report.ok("profile", f"{self.profile.shown_title}, from {self.profile.source}.")
        login = await self._signed_in(report)
        if login is None:
            failed = report.failures[-1].name if report.failures else "sign-in"
            report.skip_after(failed)
            return
        connections = Connections(login, self.prompter)
        try:
            await self._cluster(connections, login, report)
        finally:
            connections.close()
        report.skip(CHECKS, "not looked at")

    async def _signed_in(self, report: Report) -> LoginConnection | None:
        try:
            reachable = await look_at_network(self.profile, report)
            if reachable is None:
                return None
            if not await look_at_credentials(self.profile, reachable.host, report):
                reachable.close()
                return None
            return await sign_in(self.profile, reachable, self.prompter, report)
        except UsageError as error:
            report.failed("name", error.message, f"{error.hint} {self.profile.login.network}")
            return None

    async def _cluster(
        self, connections: Connections, login: LoginConnection, report: Report
    ) -> None:
        if not await look_at_shell(login, report):
            await look_at_forwarding(login, report)
            report.skip_after("login-shell")
            return
        _, facts, asked = await together(
            look_at_forwarding(login, report),
            look_at_login_host(login.runner, report),
            look_at_slurm(login.runner, self.profile, report),
        )
        if facts is None:
            report.skip_after("login-clock")
            return
        if asked is None:
            report.skip_after(report.failures[-1].name)
            return
        if not self.job:
            report.skip(IN_A_JOB, "not looked at: no job was wanted (--no-job)")
            return
        wanted = Wanted(
            small_requests(asked.request, asked.profile.limits.min_time),
            "to look at a node",
            "The queue is no fault: wait longer (--wait 1h), or look without a job (--no-job).",
            self.wait_seconds,
            f"{facts.home_folder}/{STATE_FOLDER}",
        )
        try:
            async with short_job(
                login, wanted, self.tell, lambda ended: _say_given_back(ended, report)
            ) as job:
                waited = f"after {duration(job.waited)} in the queue"
                report.ok("job", f"Job {job.job_id} runs on {job.node}, {waited}.")
                check = NodeCheck(asked.profile, facts, connections, job, report)
                await check.run()
        except JobNeverRan as error:
            report.error("job", error)
            report.skip_after("job")
        except HpcError as error:
            # Whatever stage it came from, the first line without a word is the one.
            missing = next(name for name in CHECKS if name not in report.checks)
            report.error(missing, error)
            report.skip_after(missing)


def _say_given_back(ended: GivenBack, report: Report) -> None:
    if ended.unheard:
        report.failed("given-back", ended.text, ended.advice)
    elif ended.removed:
        report.ok("given-back", ended.text)
    else:
        report.note("given-back", ended.text)
