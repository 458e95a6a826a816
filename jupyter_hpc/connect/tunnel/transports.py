"""The transports: what carries the stream between this machine and the node, best first.

    ssh         second hop from here through the login connection
    login-ssh   the login host's own `ssh NODE`
    srun        stdin and stdout of a job step, started on the login host
    direct      TLS over TCP from the login host to the node; only if asked for

Every transport but the last starts the relay's attach command on the node and drops what
start-up files print before it says that it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from jupyter_hpc.connect.ssh.interfaces import BytePipe, Connection, LoginConnection, RemoteProcess
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.runner import Marker, command_line, script_for
from jupyter_hpc.connect.tunnel.tls import open_tls
from jupyter_hpc.errors import HpcError, PipeRefused, RelayGone, Unreachable
from jupyter_hpc.relay.frames import RELAY_READY
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: Transports that are tried without being asked for, best first.
AUTOMATIC = ("ssh", "login-ssh", "srun")
TRANSPORTS = (*AUTOMATIC, "direct")

#: The attach command ends with this code when nothing answers on the relay's socket.
_NO_RELAY = 3

#: Printed on stderr before the command's own words; start-up files talk before it.
_BEGIN = Marker("attach")

_LOGIN_SSH = (
    "ssh", "-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
    "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none", "-o", "ControlPath=none",
    "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=40", "-e", "none",
)  # fmt: skip


@dataclass(frozen=True)
class Attach:
    """What has to run, and where, to reach the relay of a job.

    `argv` is the relay's attach command as it runs on `node`; `step_argv` is the same
    command wrapped into a job step with unbuffered stdio (slurm.allocate.step_argv);
    `direct` is the TCP address of the relay if it listens on one, `certificate` what it shows
    there; `no_port` says why it listens on none.
    """

    node: str
    argv: tuple[str, ...]
    step_argv: tuple[str, ...] = ()
    direct: tuple[str, int] | None = None
    certificate: str = ""
    no_port: str = ""


@dataclass(frozen=True)
class Chosen:
    """The pipe that was opened, which transport it is, and why better ones could not be used."""

    transport: str
    pipe: BytePipe
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """One sentence for people."""
        if not self.refused:
            return f"{self.transport} is the best transport and works."
        others = " ".join(f"{transport}: {why}" for transport, why in self.refused.items())
        return f"{self.transport} is used because of the better transports none works. {others}"


class Connections:
    """The login connection and the node connections made through it."""

    def __init__(self, login: LoginConnection, prompter: Prompter) -> None:
        self.login = login
        self._prompter = prompter
        self._nodes: dict[str, Connection] = {}
        self._opening = asyncio.Lock()

    async def node(self, name: str, *, timeout: float = 15.0) -> Connection:
        """The second hop to a node, opened once and kept. Raises PipeRefused."""
        async with self._opening:
            known = self._nodes.get(name)
            if known is None or known.closed:
                known = await self.login.open_node(name, self._prompter, timeout=timeout)
                self._nodes[name] = known
            return known

    def close(self) -> None:
        """Close everything, the login connection last."""
        for node in self._nodes.values():
            node.close()
        self._nodes.clear()
        self.login.close()


async def open_pipe(
    transport: str, connections: Connections, attach: Attach, *, timeout: float = 15.0
) -> BytePipe:
    """Open one transport.

    Raises PipeRefused with the reason, RelayGone when the transport works but no relay
    answers at its end, HostKeyChanged, or Unreachable when the login is gone.
    """
    login = connections.login
    _log.debug("opening a pipe to %s over %s", attach.node, transport)
    if transport == "direct":
        return await _direct(login, attach, timeout)
    if transport == "ssh":
        node = await connections.node(attach.node, timeout=timeout)
        return await _attached(transport, node, attach.argv, attach.node, timeout)
    if transport == "login-ssh":
        remote = command_line(script_for(attach.argv, _BEGIN))
        words = [*_LOGIN_SSH, "--", attach.node, remote]
        return await _attached(transport, login, words, attach.node, timeout)
    if transport == "srun":
        if not attach.step_argv:
            raise PipeRefused(
                "There is no job step to attach to.", "Use another transport (--via)."
            )
        return await _attached(transport, login, attach.step_argv, attach.node, timeout)
    raise ValueError(f"no such transport: {transport}")


async def _direct(login: LoginConnection, attach: Attach, timeout: float) -> BytePipe:
    if attach.direct is None:
        why = f": {printable(attach.no_port, 200)}" if attach.no_port else ""
        raise PipeRefused(
            f"The relay on the node listens on no TCP port{why}.",
            "Use another transport (--via)"
            + (", or start a new session with this one." if not why else "."),
        )
    if not attach.certificate:
        raise PipeRefused(
            "The relay on the node was started by an older version, without TLS on its port.",
            "Use another transport (--via), or stop the session and start a new one.",
        )
    pipe = await login.open_tcp(*attach.direct, timeout=timeout)
    host, port = attach.direct
    return await open_tls(pipe, attach.certificate, f"port {port} of {host}", timeout)


async def choose(
    connections: Connections,
    attach: Attach,
    *,
    wanted: str = "auto",
    remembered: str | None = None,
    timeout: float = 15.0,
) -> Chosen:
    """Open the best transport that works.

    `wanted` names one transport, or "auto"; `remembered` is the one that worked on this
    cluster before and is tried first. Raises PipeRefused with every reason if none works,
    RelayGone if the node was reached and no relay answers there.
    """
    order: Sequence[str] = AUTOMATIC if wanted == "auto" else (wanted,)
    if wanted == "auto" and remembered in AUTOMATIC:
        order = (remembered, *[transport for transport in AUTOMATIC if transport != remembered])
    refused: dict[str, str] = {}
    hint = "Ask the site whether SSH to nodes with a job, or `srun --overlap`, is allowed."
    gone: RelayGone | None = None
    for transport in order:
        try:
            pipe = await open_pipe(transport, connections, attach, timeout=timeout)
            chosen = Chosen(transport, pipe, refused)
            _log.info("transport to %s: %s", attach.node, chosen.reason)
            return chosen
        except PipeRefused as error:
            _log.info("transport %s to %s refused: %s", transport, attach.node, error.message)
            refused[transport] = error.message
            if transport == "direct":
                hint = error.hint  # nothing of the site's SSH or Slurm is in its way
        except RelayGone as error:
            _log.info("transport %s to %s: %s", transport, attach.node, error.message)
            # A login to the node does not see the /tmp of a job that has one of its own.
            gone = error
            refused[transport] = error.message
    if gone is not None:
        raise gone
    reasons = " ".join(f"{transport}: {why}" for transport, why in refused.items())
    raise PipeRefused(
        f"No transport reaches {attach.node}. {reasons}",
        hint,
    )


async def _attached(
    transport: str, host: Connection, argv: Sequence[str], node: str, timeout: float
) -> BytePipe:
    process = await host.start(command_line(script_for(argv, _BEGIN)), timeout=timeout)
    ready = False
    late = False
    try:
        ready = await within(process.skip_past(RELAY_READY), timeout)
    except (TimeoutError, asyncio.TimeoutError):
        late = True
    finally:
        if not ready:
            # The exit code comes a moment after the end of the output.
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await within(process.wait_ended(), 0.0 if late else 2.0)
            process.close()
    if not ready:
        raise _no_attach(transport, host, process, node, timeout if late else None)
    return process


def _no_attach(
    transport: str, host: Connection, process: RemoteProcess, node: str, waited: float | None
) -> HpcError:
    said = printable(_BEGIN.after_last(process.stderr).decode("utf-8", "replace"), 300).strip()
    if process.returncode == _NO_RELAY:
        return RelayGone(
            f"On {node} no relay answers{': ' + said if said else ''}.",
            "Jupyter has to be started again in the job.",
        )
    if waited is not None:
        problem = f"no answer within {waited:g} s"
    elif process.returncode is None:
        if host.closed:
            return Unreachable(f"The connection to {host.host} is closed.", "Connect again.")
        problem = "the connection was closed, or start-up files print without end"
    else:
        problem = f"it ended with exit code {process.returncode}"
    return PipeRefused(
        f"Attaching by {transport} to {node} failed: {(said or problem).rstrip('.')}.",
        "Another transport is tried, unless one was asked for.",
    )
