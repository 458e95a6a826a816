"""The login host: its shell, its clock, the home folder, quota and /tmp."""

from __future__ import annotations

import time

from jupyter_hpc.clusters.quota import Quota
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.doctor.facts import TMP, Area, HostFacts, examine
from jupyter_hpc.connect.ssh.interfaces import LoginConnection
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import duration, memory_size

#: Kerberos, Slurm's own credentials and certificates allow minutes at most.
_MAX_SKEW_SECONDS = 60.0

#: A shell that takes longer makes every command wait.
_SLOW_SHELL_SECONDS = 5.0

#: JupyterLab's files of a session need little; a wheel or a notebook needs more.
_LITTLE_MB = 200.0

#: From this share of a quota on it is worth a word.
_NEARLY_FULL = 0.95


async def look_at_shell(login: LoginConnection, report: Report) -> bool:
    """Whether commands run there at all."""
    began = time.monotonic()
    try:
        await login.runner.run(["true"])
    except HpcError as error:
        report.error("login-shell", error)
        return False
    took = time.monotonic() - began
    if took > _SLOW_SHELL_SECONDS:
        report.note(
            "login-shell",
            f"Commands run on {login.host}, but the first took {took:.0f} s.",
            "Look at what ~/.bashrc does there for shells that nobody types into.",
        )
    else:
        report.ok("login-shell", f"Commands run on {login.host} as {login.user}.")
    return True


async def look_at_login_host(runner: Runner, report: Report) -> HostFacts | None:
    """What it tells, or None: then nothing can be started there."""
    try:
        facts = await examine(runner, quota=True)
    except HpcError as error:
        report.error("login-clock", error)
        report.skip(["login-home", "quota", "login-tmp"], "not looked at: the host ran no script")
        return None
    say_clock("login-clock", facts, "this computer", report)
    say_area("login-home", f"{facts.home_folder} on {facts.host}", facts.home, report)
    _say_quota(facts.quota, report)
    say_area("login-tmp", f"{TMP} of {facts.host}", facts.tmp, report)
    return facts


def say_clock(name: str, facts: HostFacts, other: str, report: Report) -> None:
    """Whether two clocks agree, as far as they have to."""
    if facts.skew is None:
        report.note(name, f"{facts.host} does not tell its time.")
    elif abs(facts.skew) > _MAX_SKEW_SECONDS:
        way = "ahead of" if facts.skew > 0 else "behind"
        report.failed(
            name,
            f"The clock of {facts.host} is {duration(abs(facts.skew))} {way} that of {other}.",
            "Have the clock of this computer set by the network (NTP). If it is right, tell the "
            "site: certificates, tickets and times are wrong there.",
        )
    else:
        report.ok(name, f"{facts.host} and {other} agree.")


def say_area(name: str, what: str, area: Area, report: Report) -> None:
    """Whether a folder takes a file, and has room."""
    left = f", {memory_size(area.left_mb)} left" if area.left_mb is not None else ""
    if not area.writable:
        report.failed(
            name, f"{what} cannot be written: {area.refusal}{left}.", _make_room(name, area)
        )
    elif area.left_mb is not None and area.left_mb < _LITTLE_MB:
        report.note(name, f"{what} can be written, but has little room{left}.", "Delete files.")
    else:
        report.ok(name, f"{what} can be written{left}.")


def _make_room(name: str, area: Area) -> str:
    full = "quota" in area.refusal.lower() or "space" in area.refusal.lower()
    if name.endswith("tmp"):
        return (
            "Delete your own files there, or tell the site; on a node it may help to ask for "
            "another one."
            if full
            else "Tell the site: a folder for sockets is needed there."
        )
    if full:
        return "Delete files there, or move them to another storage area of the cluster."
    if name == "node-home":
        return (
            "Where the site means it so, say it in the profile: [storage.home] path = "
            '"$HOME", kind = "home", read_only = true. Else tell the site.'
        )
    return "Tell the site."


def _say_quota(quota: Quota | None, report: Report) -> None:
    if quota is None or quota.limit is None:
        report.skip(["quota"], "the login host tells of no quota of the home folder")
        return
    used = f"{memory_size(quota.used / 2**20)} of {memory_size(quota.limit / 2**20)}"
    files = (
        f", {quota.files_used} of {quota.files_limit} files"
        if quota.files_used is not None and quota.files_limit
        else ""
    )
    text = f"{used}{files} of the home folder are used."
    full = quota.used >= quota.limit or _share(quota.files_used, quota.files_limit) >= 1
    if full:
        report.failed("quota", text, "Delete files there, or ask the site for more.")
    elif max(quota.used / quota.limit, _share(quota.files_used, quota.files_limit)) > _NEARLY_FULL:
        report.note("quota", text, "Delete files there before it is full.")
    else:
        report.ok("quota", text)


def _share(used: int | None, limit: int | None) -> float:
    return used / limit if used is not None and limit else 0.0
