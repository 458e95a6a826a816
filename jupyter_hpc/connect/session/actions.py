"""What the page and other commands of this laptop may ask of a running session."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_hpc.clusters.loading import DEMO_PROFILE
from jupyter_hpc.connect.events import ANSWERED_WHERE
from jupyter_hpc.connect.files.share import Shared
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.proxy.listening import Listening, listening
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.connections import unless_interrupted
from jupyter_hpc.connect.session.jupyter_api import ask_trial, start_tensorboard
from jupyter_hpc.errors import (
    CommandMissing,
    CommandTimeout,
    ConnectError,
    PortTaken,
    Unreachable,
    UsageError,
)

if TYPE_CHECKING:
    from jupyter_hpc.connect.proxy.server import LocalProxy
    from jupyter_hpc.connect.session.manager import Manager
    from jupyter_hpc.connect.session.supervisor import Supervisor

#: Where people look for TensorBoard; another one if it is taken.
_TENSORBOARD_PORT = 6006

Action = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class SessionActions:
    """The table of actions of one manager; each takes and gives plain values."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def table(self) -> dict[str, Action]:
        return {
            "disconnect": self.disconnect,
            "stop": self.stop,
            "start": self.start_again,
            "enter": self.enter,
            "login": self.log_in,
            "try": self.try_now,
            "renew": self.renew,
            "forward": self.forward,
            "forwards": self.forwards,
            "end-forward": self.end_forward,
            "tensorboard": self.tensorboard,
            "trial": self.trial,
            "logs": self.logs,
            "token-url": self.token_url,
            "browser-url": self.browser_url,
            "run": self.run,
            "share": self.share,
        }

    async def disconnect(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Leave; the job stays."""
        self._check_seen(parameters)
        return await self._finish(SessionCommand.LEAVE, parameters)

    async def stop(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Cancel the job, confirmed by Slurm."""
        self._check_seen(parameters)
        return await self._finish(SessionCommand.STOP, parameters)

    def _check_seen(self, parameters: dict[str, Any]) -> None:
        """`while` is the state that whoever asks has seen; in another one it may not be meant."""
        seen, state = parameters.get("while"), self._manager.state
        if seen is not None and seen != state:
            raise ConnectError(
                f"This came too late and changes nothing: the session is not {seen} any more, "
                f"but {state}.",
                f"To end the session and its job: jupyter-hpc stop {self._manager.name}",
            )

    async def _finish(self, command: SessionCommand, parameters: dict[str, Any]) -> dict[str, Any]:
        ended = await self._manager.finish(command, *_answered(parameters))
        # Whoever leaves need not hear how a job that is over went.
        if ended is not None and ended.cause == "failed" and command is SessionCommand.STOP:
            raise ConnectError(ended.text)
        return {"text": ended.text if ended is not None else ""}

    async def start_again(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """A new job, after the old one has ended."""
        self._manager.ask(SessionCommand.AGAIN, *_answered(parameters))
        return {}

    async def log_in(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """A person is there to answer a login."""
        self._manager.ask(SessionCommand.LOGIN, *_answered(parameters))
        return {"text": "The login asks on the terminal, or on your phone."}

    async def try_now(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Reconnect now, and not after the pause."""
        self._manager.ask(SessionCommand.TRY)
        return {}

    async def renew(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Go on in a further job as soon as there is one."""
        supervisor = self._manager.supervisor
        if supervisor is None or supervisor.link is None:
            raise ConnectError("The session does not serve yet.", "Try again when it is ready.")
        supervisor.renewal.ask(variables=parameters.get("variables") in (True, "yes"))
        return {"text": "Another job of the same shape is asked for."}

    async def forward(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Bring a port or socket of the node to a local port; says whether anything listens."""
        target = forward_target(str(parameters.get("target", "")))
        port, proxy = parameters.get("port"), self._manager.proxy
        if port is None and target.startswith("tcp:") and proxy is not None:
            port = _opened(proxy, target)
            if port is None:
                # The demo's nodes are this computer: the same port would lead to itself, and
                # stand in the way of what is to listen there.
                at_home = self._manager.profile.name == DEMO_PROFILE
                port = 0 if at_home else int(target.rpartition(":")[2])
        if proxy is None or not isinstance(port, int):
            raise UsageError("A local port is needed for this.", "Add --port N.")
        there = await listening(proxy.upstream, target)
        bound = await proxy.add_forward(port, target)
        return _described(bound, target, there)

    async def forwards(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What is forwarded now, and whether anything listens there."""
        proxy = self._manager.proxy
        opened = sorted(proxy.forwards.items()) if proxy is not None else []
        upstream = proxy.upstream if proxy is not None else None
        there = await asyncio.gather(*(listening(upstream, target) for _, target in opened))
        told = zip(opened, there, strict=True)
        return {"forwards": [_described(*one, said) for one, said in told]}

    async def end_forward(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """End one forward, named by what it leads to or by its local port."""
        named = str(parameters.get("target", ""))
        proxy, target = self._manager.proxy, forward_target(named)
        opened = proxy.forwards if proxy is not None else {}
        ports = [port for port, leads_to in opened.items() if leads_to == target]
        ports += [port for port in opened if str(port) == named and port not in ports]
        if proxy is None or not ports:
            shown = ", ".join(target_name(leads_to) for leads_to in opened.values())
            raise UsageError(
                f"{named!r} is not forwarded by {self._manager.name}.",
                f"Forwarded are: {shown}." if shown else "Nothing is forwarded.",
            )
        for port in ports:
            await proxy.remove_forward(port)
        return {"ports": ports}

    async def tensorboard(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """TensorBoard in the job, on a socket of its own, brought to a local port."""
        supervisor, proxy = self._manager.supervisor, self._manager.proxy
        if supervisor is None or supervisor.link is None or proxy is None:
            raise Unreachable("The session is not connected just now.", "Try again in a moment.")
        board = await start_tensorboard(
            supervisor.link, supervisor.token, str(parameters.get("logdir", ""))
        )
        target = forward_target(board["socket"])
        port = parameters.get("port")
        bound = _opened(proxy, target)
        if isinstance(port, int):
            bound = await proxy.add_forward(port, target)
        elif bound is None:
            try:
                bound = await proxy.add_forward(_TENSORBOARD_PORT, target)
            except PortTaken:
                bound = await proxy.add_forward(0, target)
        return {"address": f"http://localhost:{bound}/", "port": bound, "logdir": board["logdir"]}

    async def trial(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The trial of the server in the job: begun, looked at, or ended."""
        supervisor = self._manager.supervisor
        if supervisor is None or supervisor.link is None:
            raise Unreachable("The session is not connected just now.", "Try again in a moment.")
        method = str(parameters.get("method", "GET"))
        if method not in ("GET", "POST", "DELETE"):
            raise UsageError(f"{method!r} is nothing that can be done with a trial.")
        return await ask_trial(
            supervisor.link,
            supervisor.token,
            method,
            parameters.get("body"),
            str(parameters.get("id", "")),
        )

    async def logs(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What Jupyter wrote, from a byte offset on."""
        supervisor = self._manager.supervisor
        if supervisor is None or supervisor.address is None:
            raise ConnectError("Jupyter has not been started yet.", "Try again when it runs.")
        if self._manager.over:
            raise ConnectError(
                "The job of this session has ended, and the connection to it with it.",
                f"The log is {supervisor.address.session}/jupyter.log on the cluster.",
            )
        try:
            offset = int(parameters.get("offset", -1))
            text, offset = await read_log(supervisor, offset)
        except (ConnectError, CommandTimeout) as error:
            raise self._away() from error
        return {"text": text, "offset": offset}

    def _away(self) -> Unreachable:
        """Why nothing can be read on the node just now."""
        if self._manager.needs_person:
            return Unreachable("The connection to the node is away.", self._manager.needs_person)
        return Unreachable(
            "The connection to the node is away, and is being made again.",
            f"Try again in a moment; 'jupyter-hpc logs -f {self._manager.name}' waits for it.",
        )

    async def token_url(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The address with its token."""
        token = self._token()
        if not token:
            raise ConnectError("The session has no token yet.", "Wait until it is ready.")
        return {"url": f"http://localhost:{self._manager.port}/lab?token={token}"}

    async def browser_url(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The address to open in a browser now."""
        return {"address": self._manager.browser_url}

    async def enter(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """For the page, at the moment when it becomes JupyterLab."""
        return {"token": self._token()}

    async def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """A command on the login host, for batch commands of this laptop."""
        supervisor = self._manager.supervisor
        argv = [str(word) for word in parameters.get("argv") or []]
        if supervisor is None or not supervisor.connections.alive:
            # Nothing was begun, so whoever asks may do it over a login of its own.
            return {"away": "The session is not connected to the login host just now."}
        if not argv:
            raise UsageError("No command was given.")
        file = parameters.get("stdin_file")
        stdin = None
        if isinstance(file, str):
            stdin = await asyncio.to_thread(Path(file).read_bytes)
        try:
            timeout = float(parameters["timeout"])
            done = await supervisor.connections.run(argv, stdin=stdin, timeout=timeout)
        except CommandMissing as error:
            return {"missing": error.message, "hint": error.hint}
        except CommandTimeout as error:
            return {"late": error.message, "hint": error.hint}
        return {
            "returncode": done.returncode,
            "stdout": base64.b64encode(done.stdout.encode()).decode(),
            "stderr": base64.b64encode(done.stderr.encode()).decode(),
        }

    async def share(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """A command line on the login host, or its SFTP, whose streams another program gets."""
        supervisor = self._manager.supervisor
        if supervisor is None or not supervisor.connections.alive:
            return {"away": "The session is not connected to the login host just now."}
        login, line = supervisor.connections.login, parameters.get("line")
        process = await (login.start_sftp() if line is None else login.start(str(line)))
        return {**await Shared(process).offer(), "host": login.host}

    def _token(self) -> str:
        return self._manager.supervisor.token if self._manager.supervisor is not None else ""


async def read_log(supervisor: Supervisor, offset: int) -> tuple[str, int]:
    """What Jupyter wrote from byte `offset` on (-1: the end of it), and the next offset.

    Unreachable as soon as the connection is known to be away.
    """
    if supervisor.address is None:
        return "", 0
    on_node, file = supervisor.connections.on_node, f"{supervisor.address.session}/jupyter.log"
    text, size = await unless_interrupted(remote.read_from(on_node, file, offset), supervisor.link)
    # Nothing at all was read where something has been: where it stopped is still true.
    return (text, size) if text or size else ("", max(0, offset))


def _described(port: int, target: str, there: Listening) -> dict[str, Any]:
    address = f"http://localhost:{port}"
    return {"address": address, "port": port, "target": target_name(target), "listening": there}


def target_name(target: str) -> str:
    """The relay's name for a target as people write it: "6006" or "/path/to/socket"."""
    return target[len("unix:") :] if target.startswith("unix:") else target.rpartition(":")[2]


def _answered(parameters: dict[str, Any]) -> tuple[str, str]:
    """The question that an action answers ("": whatever is open), and where that was done."""
    where = parameters.get("where")
    question = parameters.get("question")
    return (
        question if isinstance(question, str) else "",
        where if where in ANSWERED_WHERE else "command",
    )


def _opened(proxy: LocalProxy, target: str) -> int | None:
    """The local port that leads there already."""
    return next((at for at, leads_to in proxy.forwards.items() if leads_to == target), None)


def forward_target(text: str) -> str:
    """ "6006", "localhost:6006" or "/path/to/socket" as the relay's name for it."""
    if text.startswith("/"):
        return f"unix:{text}"
    host, _, port = text.rpartition(":")
    if port.isdigit() and 0 < int(port) < 65536 and host in ("", "localhost", "127.0.0.1"):
        return f"tcp:127.0.0.1:{int(port)}"
    raise UsageError(
        f"{text!r} is neither a port of the node nor the path of a socket.",
        "Give a port such as 6006, or a path such as /tmp/x.sock.",
    )
