"""Whether the system's `ssh` gets in to a cluster by itself, as an earlier login of ours has shown.

Never guessed: an attempt that fails counts, and some sites lock accounts. So the first login is
ours; only where a key was all it needed, and no site's rule and no ControlMaster is in the way
(connect/ssh/hop.py), does the next transfer go through `ssh`. One that is refused ends that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from typing import TYPE_CHECKING

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.session.store import LoginMemory, Records
from jupyter_hpc.connect.ssh.openssh.alone import LoginAlone
from jupyter_hpc.connect.ssh.settings import Target, config_files
from jupyter_hpc.errors import UsageError

if TYPE_CHECKING:  # it loads asyncssh
    from jupyter_hpc.connect.ssh.interfaces import LoginConnection


class UnattendedLogin:
    """The memory of the logins that a profile describes."""

    def __init__(self, login: Login, records: Records) -> None:
        self._login = login
        self._records = records
        who = [login.host, login.user, login.port, login.ssh_config, login.jump]
        self._key = hashlib.sha256(json.dumps(who).encode()).hexdigest()[:16]

    def find(self) -> LoginAlone | None:
        """The host, if ssh is known to get in to it and nothing has changed since."""
        if sys.platform == "win32" or self._limited():
            return None
        known = self._records.login(self._key)
        if known is None or not known.alone or known.config != self._config():
            return None
        if known.host not in self._login.host:
            return None
        login = self._login
        return LoginAlone(Target(known.host, login.user, login.port, login.ssh_config))

    def learn(self, opened: LoginConnection) -> None:
        """Remember how a login of ours went."""
        known, config = self._records.login(self._key), self._config()
        refused = known is not None and known.refused and known.config == config
        alone = opened.keys_alone and not refused and not self._limited()
        if known is not None or alone:
            self._note(LoginMemory(opened.host, alone, config, refused))

    def refuse(self, host: str) -> None:
        """ssh is no way to this host: not tried again while the configuration is this."""
        self._note(LoginMemory(host, False, self._config(), refused=True))

    def _note(self, known: LoginMemory) -> None:
        # What cannot be written down costs a login of ours the next time.
        with contextlib.suppress(OSError):
            self._records.remember_login(self._key, known)

    def _limited(self) -> bool:
        login = self._login
        return bool(login.expiring or login.max_attempts is not None or login.jump)

    def _config(self) -> str:
        """What tells one state of the SSH configuration from another."""
        states = []
        with contextlib.suppress(OSError, UsageError):
            for file in config_files(self._login.ssh_config):
                found = os.stat(file)
                states.append([file, found.st_size, found.st_mtime_ns])
        return hashlib.sha256(json.dumps(states).encode()).hexdigest()[:16]
