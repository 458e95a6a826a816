"""Inside the job: which transports reach its node, and whether JupyterLab starts there."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_hpc import __version__
from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.doctor.facts import TMP, HostFacts, examine
from jupyter_hpc.connect.doctor.login_host import say_area, say_clock
from jupyter_hpc.connect.job.launch import Launcher, ServerAddress
from jupyter_hpc.connect.job.remote import Account, first, read_fields, shipped
from jupyter_hpc.connect.job.short_job import ShortJob
from jupyter_hpc.connect.tunnel.transports import AUTOMATIC, Attach, Connections, open_pipe
from jupyter_hpc.errors import HpcError, Unreachable
from jupyter_hpc.relay.frames import RELAY_READY
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.allocate import step_argv

#: For one transport to answer; a busy srun may take some seconds.
_TRANSPORT_SECONDS = 25.0

#: For the login host to run nothing, where something else has failed.
_ALIVE_SECONDS = 5.0

#: For JupyterLab to answer once its relay does.
_ANSWER_SECONDS = 60.0

#: Linux: bytes that the path of a socket may have.
_MAX_SOCKET_BYTES = 107

#: The longest socket below the session's folder: that of a kernel.
_KERNEL_SOCKET = f"/run/kernel-{'0' * 36}-ipc-5"

_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")


@dataclass(frozen=True)
class NodeCheck:
    """What is needed to look at the node of a running job."""

    profile: Profile
    login_facts: HostFacts
    connections: Connections
    job: ShortJob
    report: Report

    async def run(self) -> None:
        """All lines of the node; what cannot be looked at is said as skipped."""
        working = await self._transports()
        if not working:
            self.report.skip(
                [name for name in _AFTER_TRANSPORT if name not in self.report.checks],
                "not looked at: no transport reaches the node",
            )
            return
        on_node, starter = await self._runners(working)
        try:
            facts = await examine(on_node)
        except HpcError as error:
            self.report.error("node-home", await self._cause(error))
            self.report.skip(_AFTER_TRANSPORT, "not looked at: the node runs no script")
            return
        self._say(facts)
        await self._server(facts, on_node, starter)

    async def _transports(self) -> list[str]:
        """The transports that work; the one that the profile names has to be one of them."""
        answers = await asyncio.gather(*(self._try(name) for name in AUTOMATIC))
        working = [n for n, why in zip(AUTOMATIC, answers, strict=True) if not why]
        refused = [f"{n}: {why}" for n, why in zip(AUTOMATIC, answers, strict=True) if why]
        wanted = self.profile.jupyter.transport
        words = f"{_listed(working)} reach{'' if len(working) > 1 else 'es'} the node."
        if not working:
            self.report.failed(
                "transport",
                f"Nothing reaches {self.job.node}. {' '.join(refused)}",
                "Ask the site whether SSH to nodes with a job, or `srun --overlap`, is allowed.",
            )
        elif wanted in AUTOMATIC and wanted not in working:
            self.report.failed(
                "transport",
                f"The profile names {wanted}, which does not work. {' '.join(refused)}",
                f'{words} Set [jupyter] transport = "auto" in the profile.',
            )
        elif wanted != "direct":  # that one is known once something listens there
            self.report.ok("transport", " ".join([words, *refused]))
        return working

    async def _try(self, transport: str) -> str:
        """Why that transport does not reach the node; "" if it does."""
        argv = ("printf", "".join(f"\\{byte:03o}" for byte in RELAY_READY))
        step = step_argv(
            self.job.job_id,
            argv,
            unbuffered=True,
            no_input=False,
            quiet=True,
            node=self.job.node,
            gpus=0,
        )
        return await self._refusal(transport, Attach(self.job.node, argv, tuple(step)))

    async def _refusal(self, transport: str, attach: Attach) -> str:
        try:
            pipe = await open_pipe(transport, self.connections, attach, timeout=_TRANSPORT_SECONDS)
        except HpcError as error:
            return error.message
        pipe.close()
        return ""

    async def _say_direct(self, address: ServerAddress) -> None:
        """Whether the login host reaches the port of the relay, which the profile wants."""
        port = (self.job.node, address.port) if address.port else None
        attach = Attach(self.job.node, (), (), port, address.certificate, address.no_port)
        why = await self._refusal("direct", attach)
        if why:
            self.report.failed(
                "transport",
                f"The profile names direct, which does not work: {why}",
                'Set [jupyter] transport = "auto" in the profile.',
            )
        else:
            self.report.ok("transport", f"direct reaches port {address.port} of the node.")

    async def _cause(self, error: HpcError) -> HpcError:
        """The error, or what is behind it where the login host does not answer any more."""
        login = self.connections.login
        with contextlib.suppress(HpcError):
            if (await login.runner.run(["true"], timeout=_ALIVE_SECONDS)).ok:
                return error
        return Unreachable(
            f"The connection to {login.host} was lost meanwhile, so nothing can be said of this.",
            "Look again. If it is lost again, the network between here and there is at fault.",
        )

    async def _runners(self, working: Sequence[str]) -> tuple[Runner, Runner]:
        """Who runs commands on the node, and where a step is started: as a connect would."""
        login = self.connections.login.runner
        if "ssh" in working and self.profile.jupyter.transport in ("auto", "ssh"):
            node = await self.connections.node(self.job.node)
            return node.runner, node.runner
        return self.job.steps, login

    def _say(self, facts: HostFacts) -> None:
        say_clock("node-clock", facts, "this computer", self.report)
        home = f"{facts.home_folder} on {facts.host}"
        if self.profile.home_read_only and not facts.home.writable:
            self.report.ok("node-home", f"{home} is read-only, as the profile says.")
        else:
            say_area("node-home", home, facts.home, self.report)
        say_area("node-tmp", f"{TMP} of {facts.host}", facts.tmp, self.report)

    async def _server(self, facts: HostFacts, on_node: Runner, starter: Runner) -> None:
        secret = secrets.token_hex(32)
        there = self.login_facts
        state = self.job.folder.rpartition("/jobs/")[0]
        account = Account(
            there.home_folder, state, there.uid, there.user, there.host,
            writable=there.home.writable, token=secret, cookie_secret=secrets.token_hex(32),
        )  # fmt: skip
        launcher = Launcher(
            self.profile,
            account,
            self.job.job_id,
            [self.job.node],
            on_node=on_node,
            starter=starter,
        )
        writable = there.home.writable and facts.home.writable and not self.profile.home_read_only
        direct = self.profile.jupyter.transport == "direct"
        try:
            address = await launcher.start(home_writable=writable, tcp=direct)
            if direct:
                await self._say_direct(address)
            code = shipped("examine_server.py").decode()
            argv = [address.python, "-c", code, address.folder, address.session]
            done = await on_node.run([*argv, str(_ANSWER_SECONDS)], timeout=_ANSWER_SECONDS + 30)
        except HpcError as error:
            self.report.skip(["transport"], "not looked at: nothing listens for direct")
            self.report.error("jupyter", await self._cause(error))
            self.report.skip(_AFTER_TRANSPORT, "not looked at: JupyterLab failed")
            return
        self._say_server(address, read_fields(done.stdout))

    def _say_server(self, address: ServerAddress, fields: Mapping[str, Sequence[str]]) -> None:
        length = len((address.folder + _KERNEL_SOCKET).encode())
        if length > _MAX_SOCKET_BYTES:
            self.report.failed(
                "socket",
                f"Sockets in {address.folder} have paths of {length} bytes, and "
                f"{_MAX_SOCKET_BYTES} are allowed.",
                "Unset JUPYTER_HPC_NODE_TMP, or let it name a folder with a short path.",
            )
        else:
            self.report.ok("socket", f"{length} of {_MAX_SOCKET_BYTES} bytes.")
        lab, python = first(fields, "jupyterlab"), first(fields, "python")
        if not first(fields, "answered"):
            said = first(fields, "silent") or "it said nothing"
            self.report.failed(
                "jupyter",
                f"JupyterLab was started and does not answer: {said}.",
                f"Look at what it wrote: jupyter-hpc connect {self.profile.name} --keep",
            )
            self.report.skip(_AFTER_TRANSPORT, "not looked at: JupyterLab failed")
            return
        self.report.ok("jupyter", f"JupyterLab {lab or 'of unknown release'} starts and answers.")
        self._say_extension(first(fields, "jupyter_hpc"), first(fields, "extension") == "200")
        ours = first(fields, "jupyter_hpc")
        there = [f"jupyter-hpc {ours}"] if ours else []
        there += [f"JupyterLab {lab or '?'}", f"Python {python or '?'}"]
        here = f"jupyter-hpc {__version__}, Python {platform.python_version()}"
        self.report.ok("versions", f"Here {here}; in the job {', '.join(there)}.")

    def _say_extension(self, version: str, answers: bool) -> None:
        install = " && ".join(
            [
                *self.profile.environment.for_jupyter,
                f"pip install --upgrade jupyter-hpc=={__version__}",
            ]
        )
        fix = f"On {self.profile.login.host[0]}: {install}"
        here, there = _release(__version__), _release(version)
        if not version:
            self.report.failed(
                "extension",
                "jupyter-hpc is not installed in the environment of the job: no panels there.",
                fix,
            )
        elif there and here and there < here:
            self.report.failed(
                "extension", f"jupyter-hpc {version} in the job is older than {__version__}.", fix
            )
        elif not answers:
            self.report.failed(
                "extension",
                f"jupyter-hpc {version} is installed in the job, but its panels do not answer.",
                "Look whether it is switched off: jupyter server extension list",
            )
        elif there and here and there > here:
            self.report.note(
                "extension",
                f"jupyter-hpc {version} in the job is newer than {__version__} here.",
                f"pip install --upgrade jupyter-hpc=={version}",
            )
        else:
            self.report.ok("extension", f"jupyter-hpc {version} is in the job, and answers.")


#: What cannot be looked at where the node is not reached.
_AFTER_TRANSPORT = (
    *("node-clock", "node-home", "node-tmp", "socket", "jupyter", "extension", "versions"),
)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _release(version: str) -> tuple[int, ...]:
    found = _RELEASE.match(version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()
