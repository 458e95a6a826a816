"""Jupyter in a step of the job: found there, or started.

The step is started from the compute node itself where we can run commands on it,
else from the login host; either way nothing of ours has to stay connected.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.user_settings import notify_settings
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.certificate import make_identity
from jupyter_hpc.connect.job.failures import (
    Silence,
    explain_exit,
    explain_failure,
    explain_mute,
    explain_silence,
)
from jupyter_hpc.connect.job.remote import LOCK_SECONDS, Account, first, shipped
from jupyter_hpc.errors import HpcError, LaunchFailed, ProfileError
from jupyter_hpc.relay.bundle import relay_source
from jupyter_hpc.runner import Completed, Runner
from jupyter_hpc.slurm import allocate
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.releases import Release
from jupyter_hpc.telling import SETTINGS_FILE
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: How long the environment lines and Jupyter may take before the relay answers.
#: Conda on a cold shared file system has been seen to need minutes.
START_SECONDS = 300.0

#: What Slurm calls the step with Jupyter in it.
STEP_NAME = "jupyter"

#: The files of launch.sh that say how a start went.
_STORY = ("address", "failed", "ended")

_PORT = re.compile(r"[0-9]{1,5}")

#: Prefix of a session folder on the node, where the home folder cannot be written.
_NODE_LOCAL = "/tmp/jupyter-hpc-{job_id}"  # noqa: S108 (mktemp -d makes it, see remote.py)


@dataclass(frozen=True)
class ServerAddress:
    """Where a running Jupyter and its relay are, and what opens them.

    It is all that a later connect, from any machine, has to read to use the server again.
    """

    node: str
    session: str  #: the folder with the files that were placed, its logs and its address
    folder: str  #: the private folder of the node with the sockets
    python: str
    secret: str  #: of the relay
    token: str  #: of Jupyter
    port: int | None = None  #: of the relay, where it was started for the transport "direct"
    warning: str = ""  #: what was odd on the node and did not stop the start
    certificate: str = ""  #: that the relay shows on that port; see certificate.py
    no_port: str = ""  #: why it has none, though it was started for that
    version: str = ""  #: of that Python, such as "3.11"; "" where nothing told it

    @property
    def attach_argv(self) -> list[str]:
        """Run on the node, this connects its stdin and stdout to the relay."""
        return [self.python, f"{self.session}/relay.py", "--attach", f"{self.folder}/relay.sock"]


class StepRunner:
    """Runs commands on the job's node through steps, for sites without SSH to nodes."""

    def __init__(self, login: Runner, job_id: str, node: str) -> None:
        self._login = login
        self._job_id = job_id
        self._node = node

    async def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 30.0
    ) -> Completed:
        """Run `argv` on the node; see Runner.run for the contract."""
        step = allocate.step_argv(
            self._job_id, argv, no_input=stdin is None, node=self._node, gpus=0
        )
        return await self._login.run(step, stdin=stdin, timeout=timeout)


class Launcher:
    """Finds the Jupyter server of one job, or starts it in a step.

    However many connects begin at the same moment, one server is started. `on_node` runs
    commands on the job's node (over SSH or as steps); `starter` is where the detached
    srun is started. `nodes` are those of the job, the first of them is Jupyter's.
    """

    def __init__(
        self,
        profile: Profile,
        account: Account,
        job_id: str,
        nodes: Sequence[str],
        *,
        on_node: Runner,
        starter: Runner,
    ) -> None:
        self._profile = profile
        self._account = account
        self._job_id = job_id
        self._nodes = tuple(nodes)
        self._on_node = on_node
        self._starter = starter
        self._dead = ""  # the private folder of a server that `find` saw dead

    async def find(self) -> ServerAddress | None:
        """The server that already runs in this job, if its processes live.

        CommandFailed where its node could not be asked: it does not answer, or Slurm starts no
        step there.
        """
        fields, said = await remote.find_server(
            self._on_node,
            self._account.job_folder(self._job_id),
            _NODE_LOCAL.format(job_id=self._job_id),
        )
        if said:
            raise explain_mute(self._job_id, self._nodes[0], said)
        if not first(fields, "session"):
            self._dead = first(fields, "dead")
            return None
        return _address(fields, first(fields, "session"), first(fields, "secret"))

    async def start(self, *, home_writable: bool, tcp: bool = False) -> ServerAddress:
        """Start a server; raises LaunchFailed with what went wrong and what to do.

        To be called after `find`. A server that another connect starts at this moment is
        ours, too. `tcp` makes its relay listen on a port of the node as well.
        """
        secret = secrets.token_hex(32)
        release, gpus = await self._gpus()
        identity = make_identity() if tcp else None
        files = {**self._files(secret), "nodes": nodes_file(self._nodes, gpus)}
        if identity is not None:
            files["relay.pem"] = identity.pem
        if home_writable:
            placed = await self._place_alone(files)
            if isinstance(placed, ServerAddress):
                return placed
            session = placed
        else:
            prefix = _NODE_LOCAL.format(job_id=self._job_id)
            session = await remote.place_files(self._on_node, prefix, files, node_local=True)
        settings = self._profile.jupyter
        root, port = settings.root_dir or "", "tcp" if tcp else ""
        launch = ["sh", f"{session}/launch.sh", session, root, port, *settings.command]
        node = self._nodes[0]
        step = allocate.step_argv(
            self._job_id, launch, node=node, gpus=gpus.get(node), release=release, name=STEP_NAME
        )
        found, fields = await self._run_step(session, step, home_writable)
        if found == "address":
            certificate = identity.certificate if identity is not None else ""
            return _address(fields, session, secret, self._account.token, certificate)
        if found:
            raise self._explained(found, session, fields)
        raise await self._explain_silence(session, home_writable)

    def _explained(
        self, found: str, session: str, fields: Mapping[str, Sequence[str]]
    ) -> LaunchFailed:
        if found == "ended":
            return explain_exit(session, fields, self._profile)
        return explain_failure(fields, self._profile)

    async def _explain_silence(self, session: str, home_writable: bool) -> LaunchFailed:
        """Nothing was told by the step: what srun said, and the line that was under way."""
        # Where a home folder is shared, srun's log is read where srun was started: the
        # node may not see it.
        where = self._starter if home_writable else self._on_node
        log = await remote.read_file(where, f"{session}/srun.log", 2000)
        line = await remote.read_file(where, f"{session}/line")
        return explain_silence(
            Silence(self._job_id, session, log, START_SECONDS, remote.read_fields(line)),
            self._profile,
        )

    async def _gpus(self) -> tuple[Release | None, dict[str, int]]:
        """Slurm's release, and how many GPUs each of several nodes has.

        On one node a step gets all of them anyway, and neither is asked for.
        """
        if len(self._nodes) < 2:
            return None, {}
        slurm = SlurmClient(self._starter)
        return await slurm.version(), await slurm.node_gpus(self._job_id)

    async def _place_alone(self, files: Mapping[str, bytes]) -> str | ServerAddress:
        """The folder with our files in it, or the server that somebody else has started."""
        folder = self._account.job_folder(self._job_id)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            session = await remote.place_files(self._starter, folder, files, dead=self._dead)
            if session:
                return session
            # Who began may have died before the launch: then the lock grows old, and is ours.
            found, fields = await remote.await_file(self._on_node, folder, _STORY, LOCK_SECONDS)
            if found in ("failed", "ended"):
                raise self._explained(found, folder, fields)
            address = await self.find() if found else None
            if address is not None:
                return address
        raise LaunchFailed(
            f"Another connect began to start Jupyter in job {self._job_id} and did not finish.",
            "Connect again in a minute.",
        )

    async def _run_step(
        self, session: str, step: Sequence[str], home_writable: bool
    ) -> tuple[str, dict[str, list[str]]]:
        if home_writable or self._starter is self._on_node:
            return await remote.start_and_await(self._starter, session, step, START_SECONDS)
        # The session's folder is on the node only: the log of srun stays on the login
        # host, and the waiting happens on the node.
        log = f"/tmp/.jupyter-hpc-{secrets.token_hex(16)}.log"  # noqa: S108
        srun = await remote.start_detached(self._starter, log, step)
        found, fields = await remote.await_file(self._on_node, session, _STORY, START_SECONDS)
        if found == "address":
            await remote.let_go(self._starter, srun)
        return found, fields

    def _files(self, secret: str) -> dict[str, bytes]:
        return {
            "launch.sh": shipped("launch.sh"),
            "start.py": shipped("start.py"),
            "relay.py": relay_source().encode(),
            "cgroup.py": (resources.files("jupyter_hpc") / "cgroup.py").read_bytes(),
            "environment.sh": environment_script(self._profile).encode(),
            SETTINGS_FILE: telling_settings(),
            "profile.json": json.dumps(self._profile.to_json(), indent=1).encode(),
            "secret": secret.encode(),
            "token": self._account.token.encode(),
            "cookie_secret": self._account.cookie_secret.encode(),
            "jupyter.log": b"",
        }


#: What a login shell of bash reads after /etc/profile, which launch.sh has read by now: the first
#: of these files. They are written for people, so what they print or fail at does not count.
_LOGIN_FILES = """\
for file in ~/.bash_profile ~/.bash_login ~/.profile; do
    if [ -r "$file" ]; then
        . "$file" >/dev/null 2>&1 || :
        break
    fi
done"""


def environment_script(profile: Profile) -> str:
    """The environment lines as calls that launch.sh understands.

    A line is shell code by its nature, so it is quoted whole and evaluated there;
    variables to unset are names that the profile's schema has checked.
    """
    environment = profile.environment
    lines = [_LOGIN_FILES] if environment.shell == "login" else []
    lines += [f"unset -v {shlex.quote(name)}" for name in environment.unset]
    lines += [
        f"environment_run {number} {shlex.quote(line)}"
        for number, line in enumerate(environment.for_jupyter, start=1)
    ]
    return "\n".join([*lines, ""])


def telling_settings() -> bytes:
    """How the job itself tells its user while no laptop is connected: what leads out of it."""
    try:
        settings = notify_settings()
    except ProfileError as error:  # they were good when the session began
        _log.warning("the job cannot tell its user anything itself: %s", error.message)
        return b"{}"
    ways = {"command": list(settings.command), "webhook": settings.webhook}
    told = {name: way for name, way in ways.items() if way}
    return json.dumps({**told, "gpu_idle": settings.gpu_idle_seconds} if told else {}).encode()


def nodes_file(nodes: Sequence[str], gpus: Mapping[str, int]) -> bytes:
    """The job's nodes for launch.sh: a line for each, its name and how many GPUs it has."""
    return "".join(f"{node} {gpus.get(node, 0)}\n" for node in nodes).encode()


def _address(
    fields: Mapping[str, Sequence[str]],
    session: str,
    secret: str,
    token: str = "",
    certificate: str = "",
) -> ServerAddress:
    port = first(fields, "port")
    has_port = _PORT.fullmatch(port) is not None
    address = ServerAddress(
        node=first(fields, "node"),
        session=session,
        folder=first(fields, "folder"),
        python=first(fields, "python"),
        secret=secret,
        token=token or first(fields, "token"),
        warning=printable(first(fields, "warning")),
        port=int(port) if has_port else None,
        certificate=certificate or first(fields, "certificate"),
        no_port="" if has_port else port,
        version=first(fields, "version"),
    )
    if not (address.folder.startswith("/") and address.python and address.secret):
        raise LaunchFailed(
            "The server's address record on the cluster is not complete.",
            f"Remove {printable(session)} on the cluster and connect again.",
        )
    return address


async def extension_installed(on_node: Runner, address: ServerAddress) -> bool:
    """Whether the server extension of jupyter-hpc is there; unknown counts as yes."""
    try:
        note = await remote.read_file(on_node, f"{address.session}/extension", 16)
    except HpcError:
        return True
    return note.strip() != "no"
