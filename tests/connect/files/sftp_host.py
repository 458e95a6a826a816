"""OpenSSH's SFTP server as a process of this machine, with the end of a transfer that speaks it."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import cast

import pytest

from jupyter_hpc.connect.files.frames import Broken, Wire
from jupyter_hpc.connect.files.sftp import SftpClient
from jupyter_hpc.connect.files.sftp_agent import SftpAgent
from jupyter_hpc.connect.files.sftp_receiver import Checksum

SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")


def sftp_server() -> str:
    found = next((path for path in SERVERS if shutil.which(path)), None)
    if found is None:
        pytest.skip("openssh-sftp-server is not installed here")
    return found


def no_sums(path: str, size: int) -> str | None:
    """The host runs no commands."""
    return None


def sums(path: str, size: int) -> str | None:
    """What `head -c SIZE | sha256sum` says."""
    with Path(path).open("rb") as file:
        return hashlib.sha256(file.read(size)).hexdigest()


@contextlib.contextmanager
def sftp_client() -> Iterator[SftpClient]:
    with subprocess.Popen(
        [sftp_server()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield SftpClient(cast(BufferedReader, process.stdout), process.stdin)
        finally:
            process.kill()


@contextlib.contextmanager
def sftp_end(checksum: Checksum = no_sums) -> Iterator[Wire]:
    """A wire to a host that only speaks SFTP."""
    here, there = socket.socketpair()
    with sftp_client() as client:
        speaker = threading.Thread(target=_speak, args=(client, there, checksum), daemon=True)
        speaker.start()
        with here.makefile("rb") as reader, here.makefile("wb") as writer:
            try:
                yield Wire(reader, writer)
            finally:
                here.shutdown(socket.SHUT_RDWR)
                speaker.join(10)
        here.close()


def _speak(client: SftpClient, end: socket.socket, checksum: Checksum) -> None:
    with end, end.makefile("rb") as reader, end.makefile("wb") as writer:
        agent = SftpAgent(Wire(reader, writer), client, checksum)
        with contextlib.suppress(Broken, OSError, ValueError):
            agent.serve()
