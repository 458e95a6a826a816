"""A second factor by a menu and a phone, on the login host's real sshd."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.handles import Handles
from tests.cluster.layout import LOGIN
from tests.tools import compiled

_SOURCE = Path(__file__).with_name("second_device.c")

#: A code that is always right.
CODE = "246810"


@dataclass(frozen=True)
class Phone:
    """What gets the requests, as second_device.c knows it."""

    folder: Path

    def accept(self) -> None:
        """Accept the request that is open, or the next one."""
        (self.folder / "accept").touch()

    def refuse(self) -> None:
        """Refuse it."""
        (self.folder / "refuse").touch()

    def be_asked_first(self) -> None:
        """From now on each login sends a request, and shows no menu."""
        (self.folder / "automatic").touch()

    def show_menu(self) -> None:
        """From now on it does."""
        (self.folder / "automatic").unlink()


@contextmanager
def second_factor(cluster: Handles, *, password: bool = False) -> Iterator[Phone]:
    """Keyboard-interactive logins want the menu, or a password and then the menu."""
    ssh = cluster.folders.host(LOGIN) / "ssh"
    pam = cluster.folders.host(LOGIN) / "pam_sshd"
    phone = Phone(ssh / "phone")
    phone.folder.mkdir()
    shutil.copy(compiled(_SOURCE, "second-device.so", "pam"), ssh / "second-device.so")
    kept = pam.read_text(encoding="utf-8")
    first = ["auth required pam_unix.so nodelay"] if password else []
    asks = [*first, "auth required /etc/ssh/second-device.so /etc/ssh/phone"]
    rest = [line for line in kept.splitlines() if not line.startswith("auth ")]
    try:
        pam.write_text("".join(f"{line}\n" for line in [*asks, *rest]), encoding="utf-8")
        yield phone
    finally:
        pam.write_text(kept, encoding="utf-8")
        shutil.rmtree(phone.folder)
