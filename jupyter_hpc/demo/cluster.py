"""DemoCluster: the embedded cluster as one thing to start and stop.

    async with DemoCluster(folder) as cluster:
        ...  # ssh -F folder/ssh_config demo-login

`serve` is the same as a program: it runs until it is told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

from jupyter_hpc.demo import layout as layouts
from jupyter_hpc.demo.gpus import VARIABLE as GPUS_VARIABLE
from jupyter_hpc.demo.gpus import SimulatedGpus
from jupyter_hpc.demo.layout import Layout, base_environment, write_private
from jupyter_hpc.demo.nvidia_smi import nvidia_smi
from jupyter_hpc.demo.processes import CLUSTER_VARIABLE
from jupyter_hpc.demo.programs import write_programs
from jupyter_hpc.demo.slurm.commands import COMMANDS
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.inventory import Inventory, standard
from jupyter_hpc.demo.slurm.jobs import Job
from jupyter_hpc.demo.slurm.server import ControlServer
from jupyter_hpc.demo.slurm.steps import Launcher
from jupyter_hpc.demo.slurm.version import DEFAULT_RELEASE, VERSIONS
from jupyter_hpc.demo.spawner import Spawner
from jupyter_hpc.demo.ssh_files import LOGIN, write_ssh_files
from jupyter_hpc.demo.ssh_server import Credentials, SshHosts

Mode = Literal["key", "mfa"]
MODES = ("key", "mfa")


class DemoCluster:
    """One login host, two nodes and a Slurm work-alike, below one folder.

    `mode` is how the login host authenticates: "key" by the key in the folder,
    "mfa" by `password` and `code`, asked for one after the other. `queue_delay`
    makes every job wait that long, so that the queue can be seen; `kill_wait` is the
    time between the polite signal and the one that cannot be refused.
    """

    def __init__(
        self,
        folder: Path | str,
        mode: Mode = "key",
        *,
        queue_delay: float = 0.0,
        kill_wait: float = 5.0,
        slurm: str = DEFAULT_RELEASE,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}, not {mode!r}")
        if slurm not in VERSIONS:
            raise ValueError(f"slurm must be one of {', '.join(VERSIONS)}, not {slurm!r}")
        self.folder = Path(folder).expanduser().absolute()
        self.mode = mode
        self.password = secrets.token_hex(4) if mode == "mfa" else ""
        self.code = f"{secrets.randbelow(10**6):06}" if mode == "mfa" else ""
        self.port = 0
        self._queue_delay = queue_delay
        self._kill_wait = kill_wait
        self._slurm = slurm
        self._marker = secrets.token_hex(8)
        self._closing = contextlib.AsyncExitStack()

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F` and for asyncssh's `config`."""
        return self.folder / "ssh_config"

    @property
    def login(self) -> str:
        return LOGIN

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.inventory.nodes)

    async def __aenter__(self) -> DemoCluster:
        try:
            await self._start()
        except BaseException:
            await self._closing.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._closing.aclose()

    async def _start(self) -> None:
        lock = await asyncio.to_thread(layouts.lock, self.folder)
        self._closing.callback(os.close, lock)
        self.inventory: Inventory = standard(
            layouts.user_name(),
            os.getuid(),
            os.getgid(),
            queue_delay=self._queue_delay,
            kill_wait=self._kill_wait,
            slurm=self._slurm,
        )
        hosts = [LOGIN, *self.inventory.nodes]
        self.layout: Layout = layouts.prepare(self.folder, hosts)
        self._closing.callback(layouts.clear, self.layout)
        spawner = Spawner()
        volatile = [self.layout.run, self.layout.volatile / "tmp", self.layout.short]
        self._closing.push_async_callback(spawner.stop)
        await spawner.start(self._marker, [str(part) for part in volatile if part], [lock])
        launcher = Launcher(
            self.layout, spawner, self.inventory, self._marker, self.host_environment
        )
        first = self._first_id()
        self.controller = Controller(self.inventory, launcher, first, self._remember_id)
        self._closing.push_async_callback(self.controller.stop)
        self._gpus = SimulatedGpus(
            self.layout.run, self._marker, tuple(self.inventory.nodes.values()), self._all_jobs
        )
        self._closing.push_async_callback(self._gpus.stop)
        await self._gpus.start()
        credentials = Credentials(self.password, self.code) if self.mode == "mfa" else None
        ssh = SshHosts(self.layout, spawner, self.nodes, self.host_environment, credentials)
        self._closing.push_async_callback(ssh.stop)
        self.port = await ssh.start()
        commands = {**COMMANDS, "nvidia-smi": nvidia_smi}
        write_programs(self.layout, commands)
        server = ControlServer(self.layout.socket, self.controller, commands, ssh)
        self._closing.push_async_callback(server.stop)
        await server.start()
        write_ssh_files(self.layout, self.port, self.nodes, mfa=self.mode == "mfa")
        answers = {"password": self.password, "code": self.code} if credentials else {}
        write_private(self.folder / "mfa.json", json.dumps(answers) + "\n")

    def host_environment(self, host: str) -> dict[str, str]:
        """What a login on `host` finds in its environment."""
        environment = base_environment(self.layout, host, {CLUSTER_VARIABLE: self._marker})
        gpus = self._gpus.path(host)
        return {**environment, GPUS_VARIABLE: str(gpus)} if gpus else environment

    def _all_jobs(self) -> list[Job]:
        return list(self.controller.jobs)

    def _first_id(self) -> int:
        """Job numbers go on after a restart: an old record never names a new job."""
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / "next_job_id").read_text())
        return 1

    def _remember_id(self, number: int) -> None:
        write_private(self.folder / "next_job_id", f"{number}\n")


async def serve(
    folder: Path | str,
    mode: Mode = "key",
    *,
    queue_delay: float = 0.0,
    started: Callable[[DemoCluster], Awaitable[None] | None] | None = None,
) -> None:
    """Run a cluster until SIGINT or SIGTERM; `started` is called when it is up."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with DemoCluster(folder, mode, queue_delay=queue_delay) as cluster:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        try:
            if started is not None and (waiting := started(cluster)) is not None:
                await waiting
            await stop.wait()
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
