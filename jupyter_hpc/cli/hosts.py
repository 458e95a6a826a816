"""Where a command runs: on this machine, or on a cluster through its session.

Commands for a cluster go over the connection that a session of this laptop holds to it;
without one, a login of their own is made and closed again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jupyter_hpc.cli.unattended import UnattendedLogin
from jupyter_hpc.clusters import Login, Profile, load
from jupyter_hpc.connect.job.request import find_profile
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.connect.ssh.openssh.alone import LoginAlone, NotAlone
from jupyter_hpc.errors import (
    CommandMissing,
    CommandTimeout,
    ConnectError,
    ProfileError,
    Unreachable,
)
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, LocalRunner, Runner, prefixed

if TYPE_CHECKING:  # asyncssh takes a quarter of a second, and a session has it already
    from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
    from jupyter_hpc.connect.ssh.login import LoginConnection
    from jupyter_hpc.connect.ssh.prompts import Prompter

_log = logging.getLogger(__name__)

#: The file with the resolved profile, named inside a session.
PROFILE_VARIABLE = "JUPYTER_HPC_PROFILE"

#: A manager answers in milliseconds; one that does not is no help.
_MANAGER_SECONDS = 3.0


@dataclass(frozen=True)
class Host:
    """Where the commands of a batch job run: this machine (`here`) or a cluster's login host,
    with the profile of that cluster if there is one.
    """

    runner: Runner
    profile: Profile | None
    here: bool


def _ask(record: SessionRecord, action: str, *given: Any, timeout: float) -> dict[str, Any]:
    """ask_manager, whose HTTP most commands do not need: only those of an open session."""
    from jupyter_hpc.connect.session.client import ask_manager

    return ask_manager(record, action, *given, timeout=timeout)


class SessionRunner:
    """Runs commands through the manager of a session that is open on this laptop.

    _NotRun if that has no connection just now: the command was not begun then.
    """

    def __init__(self, record: SessionRecord) -> None:
        self._record = record

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` on the login host; see Runner.run for the contract."""
        return await asyncio.to_thread(self._run, list(argv), stdin, timeout)

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess:
        """Start a command line on the login host. Raises ConnectError."""
        from jupyter_hpc.connect.files.share import visit

        return await visit(await asyncio.to_thread(self._share, {"line": line}, timeout))

    async def start_sftp(self, *, timeout: float = 15.0) -> RemoteProcess:
        """Start the login host's SFTP server. Raises ConnectError."""
        from jupyter_hpc.connect.files.share import visit

        return await visit(await asyncio.to_thread(self._share, {}, timeout))

    def _share(self, wanted: dict[str, str], timeout: float) -> dict[str, Any]:
        try:
            answer = _ask(self._record, "share", wanted, timeout=timeout + 15)
        except Unreachable as error:
            raise _NotRun(error.message, error.hint) from error
        if answer.get("away"):
            raise _NotRun(answer["away"], answer.get("hint", ""))
        return answer

    def _run(self, argv: list[str], stdin: bytes | None, timeout: float) -> Completed:
        with contextlib.ExitStack() as stack:
            asked: dict[str, object] = {"argv": argv, "timeout": timeout}
            if stdin is not None:
                # Through a private file, because a request has a small limit.
                file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="jupyter-hpc-"))
                file.write(stdin)
                file.flush()
                asked["stdin_file"] = file.name
            try:
                answer = _ask(self._record, "run", asked, timeout=timeout + 15)
            except Unreachable as error:
                if isinstance(error.__cause__, ConnectionRefusedError):
                    raise _NotRun(error.message, error.hint) from error
                raise
        if answer.get("away"):
            raise _NotRun(answer["away"], answer.get("hint", ""))
        if answer.get("missing"):
            raise CommandMissing(answer["missing"], answer.get("hint", ""))
        if answer.get("late"):
            raise CommandTimeout(answer["late"], answer.get("hint", ""))
        decoded = {key: base64.b64decode(answer[key]) for key in ("stdout", "stderr")}
        return Completed(
            tuple(argv),
            int(answer["returncode"]),
            decoded["stdout"].decode("utf-8", "replace"),
            decoded["stderr"].decode("utf-8", "replace"),
        )


class _NotRun(Unreachable):
    """The session has no connection just now, so the command was not begun."""


class ClusterRunner:
    """Runs commands on a login host over a session's connection, else over a login of its own.

    A session whose connection is away, or that is over, is not waited for; a command is only
    given to the next when it is certain that it was not begun.
    """

    def __init__(
        self, login: Login, sessions: Sequence[SessionRecord], prompter: Callable[[], Prompter]
    ) -> None:
        self._settings = login
        self._unattended = UnattendedLogin(login, Records())
        self._alone: LoginAlone | None = None
        self._begun: RemoteProcess | None = None
        self._sessions = [SessionRunner(record) for record in sessions]
        self._prompter = prompter
        self._login: LoginConnection | None = None
        self._opening: asyncio.Future[LoginConnection] | None = None
        self._served = False

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` on the login host; see Runner.run for the contract."""
        while self._sessions:
            session = self._sessions[0]
            try:
                return await session.run(argv, stdin=stdin, timeout=timeout)
            except _NotRun:
                if session in self._sessions:
                    self._sessions.remove(session)
        login = await self._own_login()
        return await login.runner.run(argv, stdin=stdin, timeout=timeout)

    @property
    def runner(self) -> Runner:
        """Itself: what a connection of our own offers, too."""
        return self

    @property
    def host(self) -> str:
        """The login host as the profile names it first, or the one that was reached."""
        reached = self._login or self._alone
        return reached.host if reached is not None else self._settings.host[0]

    @property
    def needs_person(self) -> bool:
        """Whether a new connection would ask somebody; a session makes its own again."""
        return self._login is not None and self._login.needs_person

    @property
    def over_session(self) -> bool:
        """Whether a session's connection is used, or would be."""
        return bool(self._sessions)

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess:
        """Start a command line of ssh/runner.py there; its streams are the caller's.

        A session that has served once is waited for, not left for a login of our own: raises
        Unreachable while it is away.
        """
        process, self._begun = self._begun, None
        if process is None:
            process = await self._over_session(lambda there: there.start(line, timeout=timeout))
        if process is None:
            process = await self._started_alone(line)
        if process is None:
            process = await (await self._own_login()).start(line, timeout=timeout)
        return process

    async def start_sftp(self, *, timeout: float = 15.0) -> RemoteProcess:
        """Start the SFTP server there; see `start`."""
        process = await self._over_session(lambda there: there.start_sftp(timeout=timeout))
        if process is not None:
            return process
        if self._alone is not None:
            # Nothing of ours runs there. What has to be asked besides should not log in each time.
            await asyncio.to_thread(self._unattended.refuse, self._alone.host)
        return await (await self._own_login()).start_sftp(timeout=timeout)

    async def _over_session(
        self, start: Callable[[SessionRunner], Awaitable[RemoteProcess]]
    ) -> RemoteProcess | None:
        """What a session has started; None where there is none."""
        while self._sessions:
            session = self._sessions[0]
            try:
                process = await start(session)
                self._served = True
                return process
            except _NotRun:
                if self._served:
                    raise
                self._sessions.remove(session)
        return None

    async def _started_alone(self, line: str) -> RemoteProcess | None:
        """What the system's ssh has started; None where it is not known to get in by itself."""
        alone = await asyncio.to_thread(self._find_alone)
        if alone is None:
            return None
        try:
            return await alone.start(line)
        except NotAlone as error:
            _log.info("%s Our own login is made.", error.message)
            if error.refused:
                self._alone = None
                await asyncio.to_thread(self._unattended.refuse, alone.host)
        return None

    def _find_alone(self) -> LoginAlone | None:
        """The host for the system's ssh, if that is known to get in by itself."""
        if self._login is None and self._alone is None:
            self._alone = self._unattended.find()
        return self._alone if self._login is None else None

    async def log_in(self, line: str) -> None:
        """Make the connection now, unless a session has one, for the `line` that is started next.

        Raises ConnectError.
        """
        if not self._sessions:
            self._begun = await self._started_alone(line)
            if self._begun is None:
                await self._own_login()

    async def _own_login(self) -> LoginConnection:
        """Our own connection. What is asked while it is made shares what comes of it.

        A refusal is one attempt, and one question to a person, however many commands wait.
        """
        if self._login is not None and not self._login.closed:
            return self._login
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open_login())
        return await asyncio.shield(self._opening)

    async def _open_login(self) -> LoginConnection:
        from jupyter_hpc.connect.ssh.login import open_login

        login = self._login = await open_login(self._settings, self._prompter())
        await asyncio.to_thread(self._unattended.learn, login)
        return login

    def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._alone is not None:
            self._alone.close()
        if self._login is not None:
            self._login.close()


@contextlib.asynccontextmanager
async def open_cluster(
    profile: Profile, prompter: Callable[[], Prompter] | None = None
) -> AsyncIterator[ClusterRunner]:
    """Runs commands on the profile's login host; nothing is opened before the first of them."""
    from_terminal = prompter or _terminal_prompter
    sessions = await asyncio.to_thread(sessions_to, profile)
    runner = ClusterRunner(profile.login, sessions, from_terminal)
    try:
        yield runner
    finally:
        runner.close()


@contextlib.asynccontextmanager
async def open_transfer_host(profile: Profile) -> AsyncIterator[ClusterRunner]:
    """The host that the site has for transfers; the profile names one."""
    login = replace(profile.login, host=profile.transfer.host or profile.login.host)
    runner = ClusterRunner(login, (), _terminal_prompter)
    try:
        yield runner
    finally:
        runner.close()


def _terminal_prompter() -> Prompter:
    from jupyter_hpc.connect.ssh.prompts import terminal_prompter

    return terminal_prompter()


def sessions_to(profile: Profile) -> list[SessionRecord]:
    """The sessions of this laptop that may hold a connection to the profile's cluster."""
    return [
        record
        for record in Records().sessions()
        if _leads_to(record, profile) and _is_there(record)
    ]


def _leads_to(record: SessionRecord, profile: Profile) -> bool:
    if record.profile == profile.name:
        return True
    try:
        return load(record.profile).login == profile.login
    except ProfileError:
        return False


def _is_there(record: SessionRecord) -> bool:
    """Whether the manager answers, and its session is not over."""
    try:
        state = _ask(record, "status", timeout=_MANAGER_SECONDS).get("state")
    except ConnectError:
        return False
    return state != "ended"


#: Slurm's programs that our commands run.
_SLURM = frozenset(
    ("sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "sshare", "sstat")
)


class SlurmPrefix:
    """Runs Slurm's commands behind the words of the profile, every other one as it is."""

    def __init__(self, runner: Runner, prefix: Sequence[str]) -> None:
        self._runner = runner
        self._prefix = prefix

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv`; see Runner.run for the contract."""
        # The program may stand behind env(1) and its settings.
        words = prefixed(self._prefix, argv) if _SLURM.intersection(argv) else argv
        done = await self._runner.run(words, stdin=stdin, timeout=timeout)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)


@contextlib.asynccontextmanager
async def open_host(name: str | None) -> AsyncIterator[Host]:
    """The host that `--on` names; this machine without one."""
    if name is None:
        try:
            profile = profile_here()
            prefix = profile.slurm.prefix if profile is not None else ()
            yield Host(SlurmPrefix(LocalRunner(), prefix), profile, here=True)
        except CommandMissing as error:
            hint = f"From a laptop, name the cluster: --on NAME. {error.hint}"
            raise CommandMissing(error.message, hint) from error
        return
    profile, _ = find_profile(name)
    profile.check_usable()
    async with open_cluster(profile) as runner:
        yield Host(runner, profile, here=False)


def profile_here() -> Profile | None:
    """The profile of the session that this process runs in, if it runs in one."""
    path = os.environ.get(PROFILE_VARIABLE)
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return Profile.from_json(json.load(file), path)
    except (OSError, ValueError, ProfileError):
        return None  # its knowledge is a help, not a need
