"""A login that the system's own `ssh` makes alone.

An `ssh` process seals and opens packets three times as fast as asyncssh, on a processor of its own.
So where it is known that it gets in without a person, transfers go through one.
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_hpc.connect.ssh.openssh.process import OpenSshProcess, start_ssh
from jupyter_hpc.connect.ssh.settings import CIPHERS, Target, openssh_options
from jupyter_hpc.errors import ConnectError
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: Nobody is asked, no key of a host is taken that is not known, and nothing but keys is tried.
_ALONE = (
    "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UpdateHostKeys=no",
    "-o", "PreferredAuthentications=publickey", "-o", f"Ciphers={','.join(CIPHERS)}",
    "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ClearAllForwardings=yes",
    "-o", "RemoteCommand=none", "-o", "PermitLocalCommand=no", "-o", "ForwardX11=no",
    "-o", "ForwardAgent=no", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
    "-o", "ServerAliveCountMax=3", "-o", "LogLevel=VERBOSE", "-T",
)  # fmt: skip

#: What ssh says on stderr at that level once it is in, in every release from 6.0 to 10.0.
_LOGGED_IN = b"Authenticated to "

#: What it says when it is the host or its key that refuses, and not the network that fails.
_REFUSED = (b"Permission denied", b"verification failed", b"Too many authentication failures")

#: A network that fails is told after ConnectTimeout; a slow host may need longer.
_MAX_LOGIN_SECONDS = 30.0


class NotAlone(ConnectError):
    """ssh did not get in by itself. `refused`: the host was there and did not want it."""

    refused = False


class LoginAlone:
    """A login host that ssh gets in to with keys alone, known by an earlier login of ours.

    Each command is an `ssh` of its own, so each authenticates: for what is started once.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._processes: set[OpenSshProcess] = set()

    @property
    def host(self) -> str:
        return self._target.name

    async def start(self, line: str) -> OpenSshProcess:
        """Start a command line of runner.command_line. Raises NotAlone."""
        argv = ["ssh", *openssh_options(self._target), *_ALONE, self.host, line]
        try:
            process = await start_ssh(argv)
        except ConnectError as error:
            raise NotAlone(error.message, error.hint) from error
        self._processes.add(process)
        process.when_ended(self._processes.discard)
        try:
            if await within(process.says(_LOGGED_IN), _MAX_LOGIN_SECONDS):
                _log.info("ssh got in to %s by itself", self.host)
                return process
            raise self._refusal(process.stderr)
        except (TimeoutError, asyncio.TimeoutError):
            process.close()
            # It may be an ssh that says nothing of the kind, for which nobody should wait twice.
            late = NotAlone(f"{self.host}: ssh was not in within {_MAX_LOGIN_SECONDS:g} s.")
            late.refused = True
            raise late from None
        except BaseException:
            process.close()
            raise

    def _refusal(self, said: bytes) -> NotAlone:
        lines = printable(said.decode("utf-8", "replace"), 300).split("\n")
        error = NotAlone(f"{self.host}: ssh did not get in by itself: {' '.join(lines).strip()}.")
        error.refused = any(words in said for words in _REFUSED)
        return error

    def close(self) -> None:
        """End what still runs."""
        for process in list(self._processes):
            process.close()
