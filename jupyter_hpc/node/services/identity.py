"""Who this server runs as, in the two ways that Slurm's answers name a user."""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """The user's name and number; the number is None where the platform has none."""

    name: str
    uid: int | None

    def owns(self, user: str) -> bool:
        """Whether `user`, as "alice", "1001" or "alice(1001)", is this user.

        The number decides where it is given: in a container the name may be unknown.
        """
        found = re.fullmatch(r"(.*)\((\d+)\)", user)
        if found and self.uid is not None:
            return int(found[2]) == self.uid
        name = found[1] if found else user
        return name == self.name or (self.uid is not None and name == str(self.uid))


def current_identity() -> Identity:
    """The user of this process."""
    uid = os.getuid() if hasattr(os, "getuid") else None
    if uid is not None:
        import pwd

        try:
            return Identity(pwd.getpwuid(uid).pw_name, uid)
        except KeyError:
            pass  # a container without this user
    try:
        return Identity(getpass.getuser(), uid)
    except (OSError, KeyError):
        return Identity(str(uid), uid)
