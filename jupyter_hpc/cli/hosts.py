"""Where a batch command runs: on this machine, or on a cluster through its session.

With `--on NAME` commands go over the connection that a running session of NAME holds;
without a session a login of their own is made and closed again.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.manager import find_profile
from jupyter_hpc.connect.session.store import Records, SessionRecord
from jupyter_hpc.errors import CommandMissing, CommandTimeout, ProfileError
from jupyter_hpc.runner import DEFAULT_TIMEOUT, Completed, LocalRunner, Runner

#: The file with the resolved profile, named inside a session.
PROFILE_VARIABLE = "JUPYTER_HPC_PROFILE"


@dataclass(frozen=True)
class Host:
    """Where the commands of a batch job run: this machine (`here`) or a cluster's login host,
    with the profile of that cluster if there is one.
    """

    runner: Runner
    profile: Profile | None
    here: bool


class SessionRunner:
    """Runs commands through the manager of a session that is open on this laptop."""

    def __init__(self, record: SessionRecord) -> None:
        self._record = record

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> Completed:
        """Run `argv` on the login host; see Runner.run for the contract."""
        return await asyncio.to_thread(self._run, list(argv), stdin, timeout)

    def _run(self, argv: list[str], stdin: bytes | None, timeout: float) -> Completed:
        with contextlib.ExitStack() as stack:
            asked: dict[str, object] = {"argv": argv, "timeout": timeout}
            if stdin is not None:
                # Through a private file, because a request has a small limit.
                file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="jupyter-hpc-"))
                file.write(stdin)
                file.flush()
                asked["stdin_file"] = file.name
            answer = ask_manager(self._record, "run", asked, timeout=timeout + 15)
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


@contextlib.asynccontextmanager
async def open_host(name: str | None) -> AsyncIterator[Host]:
    """The host that `--on` names; this machine without one."""
    if name is None:
        try:
            yield Host(LocalRunner(), profile_here(), here=True)
        except CommandMissing as error:
            hint = f"From a laptop, name the cluster: --on NAME. {error.hint}"
            raise CommandMissing(error.message, hint) from error
        return
    profile, _ = find_profile(name)
    record = Records().session(name)
    if record is not None:
        yield Host(SessionRunner(record), profile, here=False)
        return
    from jupyter_hpc.connect.ssh.login import open_login
    from jupyter_hpc.connect.ssh.prompts import terminal_prompter

    login = await open_login(profile.login, terminal_prompter())
    try:
        yield Host(login.runner, profile, here=False)
    finally:
        login.close()


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
