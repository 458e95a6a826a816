"""An agent with a security key: OpenSSH's own, and a key in software that waits for a touch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tools import compiled
from tests.waiting import eventually

_SOURCE = Path(__file__).with_name("security_key.c")


@dataclass(frozen=True)
class SecurityKey:
    """The socket of an agent that has the key; `file` only names the key."""

    agent: str
    file: Path
    finger: Path

    @property
    def public(self) -> str:
        """The line for authorized_keys."""
        return Path(f"{self.file}.pub").read_text(encoding="ascii")

    def touch(self) -> None:
        """Allow one signature."""
        self.finger.touch()


@contextmanager
def security_key(folder: Path, *, touch: bool = True, patience: int = 30) -> Iterator[SecurityKey]:
    """A new key in a new agent; without `touch` it signs at once, as no-touch-required keys do."""
    library = compiled(_SOURCE, "security-key.so", "crypto")
    key = SecurityKey(f"{folder}/agent", folder / "id_ed25519_sk", folder / "finger")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "SSH_AUTH_SOCK": key.agent,
        "SECURITY_KEY_FINGER": str(key.finger),
        "SECURITY_KEY_PATIENCE": str(patience),
    }
    wanted = [] if touch else ["-O", "no-touch-required"]
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519-sk", "-w", str(library), "-N", "", "-C", "usb", *wanted,
         "-f", str(key.file)],
        check=True, env=environment, timeout=60,
    )  # fmt: skip
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-P", str(library), "-a", key.agent],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually(lambda: Path(key.agent).is_socket())
        words = ["ssh-add", "-q", "-S", str(library), str(key.file)]
        subprocess.run(words, check=True, env=environment, timeout=60)
        yield key
    finally:
        agent.terminate()
        agent.wait(30)
