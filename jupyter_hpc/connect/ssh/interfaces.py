"""What a connection to the cluster can do, whether asyncssh or OpenSSH made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.runner import Runner

OnData = Callable[[bytes], None]
OnClosed = Callable[["Exception | None"], None]
OnDrained = Callable[[], None]


class BytePipe(Protocol):
    """A two-way byte pipe to the relay, after RELAY_READY; made by connect/tunnel/transports.py."""

    def set_receiver(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[Exception | None], None],
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        """Who gets the bytes. Bytes that came before are delivered then, none is lost.

        on_closed comes once, unless close() was called here. on_drained says that queued()
        has become small after it was large (the transport's resume_writing).
        """

    def write(self, data: bytes) -> None:
        """Send all of it, in order, as soon as possible; never blocks, never fails here."""

    def queued(self) -> int:
        """Bytes that were written and that the transport has not taken yet."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """End the pipe at once; nothing is delivered after that."""


@dataclass(frozen=True)
class Said:
    """What a command wrote, and its exit code; None if that is unknown."""

    stdout: bytes
    stderr: bytes
    returncode: int | None


class Descriptors(NamedTuple):
    """stdin and stdout of a command as descriptors that block."""

    stdin: int
    stdout: int


class RemoteProcess(BytePipe, Protocol):
    """A command on another host; its stdin and stdout are the pipe."""

    @property
    def ended(self) -> bool:
        """Whether it is over, and nothing more will come."""
        ...

    @property
    def gathered(self) -> bytes:
        """What `communicate` has got until now."""
        ...

    async def communicate(self, stdin: bytes, most: int) -> Said:
        """Give it `stdin` and no more, and take what it writes until it has ended.

        Of that, `most` bytes are kept and what came with the last of them.
        """
        ...

    @property
    def stderr(self) -> bytes:
        """What it wrote to stderr, the beginning and not more than a megabyte."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit code; negative for a signal; None while it runs or if it is unknown."""
        ...

    def write_eof(self) -> None:
        """No more input will come."""
        ...

    def terminate(self) -> None:
        """Ask the host to end the command; older servers do not listen."""
        ...

    async def wait_ended(self) -> None:
        """Returns when the command has ended or the connection is lost."""
        ...

    async def skip_past(self, marker: bytes) -> bool:
        """Drop output up to and including `marker`; False if it never comes."""
        ...

    def detach(self) -> Descriptors | None:
        """Its streams for a thread, past the event loop; whoever takes them closes them.

        For a process that has said nothing that was not heard. None where it has no descriptors
        of its own: the pipe stays as it is then, and is of no use otherwise.
        """
        ...


class Connection(Protocol):
    """An authenticated connection to one host."""

    @property
    def host(self) -> str:
        """The name of the host as the profile or Slurm gives it."""
        ...

    @property
    def user(self) -> str: ...

    @property
    def runner(self) -> Runner:
        """Runs commands there, many at the same time."""
        ...

    @property
    def closed(self) -> bool: ...

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess:
        """Start a command line of runner.command_line. Raises ConnectError."""
        ...

    async def start_sftp(self, *, timeout: float = 15.0) -> RemoteProcess:
        """The host's SFTP server; its streams speak SFTP. Raises ConnectError."""
        ...

    async def wait_closed(self) -> None:
        """Returns when the connection is gone, for whatever reason."""
        ...

    def close(self) -> None:
        """End the connection and all that runs over it; returns at once."""
        ...


class LoginConnection(Connection, Protocol):
    """The connection to a login host, and through it to the nodes."""

    @property
    def kind(self) -> str:
        """How it was made: "ssh", or "control-master" for the user's own connection."""
        ...

    @property
    def needs_person(self) -> bool:
        """A new login would need an answer, so it must never be tried unasked."""
        ...

    @property
    def keys_alone(self) -> bool:
        """Whether the system's own ssh would get in as well, with keys and nothing else."""
        ...

    async def wait_silent(self, seconds: float) -> None:
        """Returns when the host has said nothing for so long, though it was asked, and the
        connection is closed for it; or when it is gone for another reason."""
        ...

    async def open_tcp(self, host: str, port: int, *, timeout: float = 15.0) -> BytePipe:
        """A TCP connection that begins on the login host. Raises PipeRefused."""
        ...

    async def open_node(
        self, node: str, prompter: Prompter, *, timeout: float = 20.0
    ) -> Connection:
        """The second hop, from this machine through the login host.

        Keys, agent, certificates and GSSAPI only; the prompter is asked about an
        unknown host key and about nothing else. Raises PipeRefused when the hop
        cannot be made, HostKeyChanged when the node shows another key than before.
        """
        ...
