"""The Jupyter server extension: traits for administrators, and the wiring."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_core.utils import ensure_async
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Dict, Float, List, Unicode

from jupyter_hpc.logs import Forward
from jupyter_hpc.node.events import (
    emit_cancelled,
    emit_leaves,
    emit_out_of_memory,
    emit_submitted,
    register_schemas,
)
from jupyter_hpc.node.handlers.base import SERVICES_KEY
from jupyter_hpc.node.handlers.routes import NOWHERE, PAGES, ROUTES
from jupyter_hpc.node.kernels import evaluate, use_for_kernels
from jupyter_hpc.node.services.hooks import ServerHooks
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.settings import NodeSettings

#: The history of the GPUs starts so long after the server, to stay out of its way.
GPU_START_DELAY_SECONDS = 5.0

#: No kernel can be lost before.
MEMORY_START_DELAY_SECONDS = 1.0


#: Nothing is told in the first minutes; the server's start comes first.
TELL_START_DELAY_SECONDS = 20.0


class HpcExtension(ExtensionApp):
    """Panels for GPUs, jobs, session, storage and budget."""

    name = "jupyter_hpc"
    load_other_extensions = True

    slurm_prefix = List(
        Unicode(),
        help="""Words put before every Slurm command, for instance ["ssh", "login"] where Jupyter
        runs in a container without Slurm's commands.""",
    ).tag(config=True)
    slurm_user = Unicode(
        "",
        help="""The user's name on the cluster, for a container in which this server runs under
        another one.""",
    ).tag(config=True)
    command_paths = Dict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help="""Full paths of programs that are not on the server's PATH:
        {"squeue": "/opt/slurm/bin/squeue"}.""",
    ).tag(config=True)
    poll_seconds = Float(
        60.0, min=1.0, help="Seconds between two looks at the queue while somebody watches it."
    ).tag(config=True)
    poll_seconds_after_action = Float(
        20.0, min=1.0, help="The same for two minutes after an own action such as a cancel."
    ).tag(config=True)
    poll_floor = Float(
        15.0, min=1.0, help="No two looks at the queue are closer than this, whatever happens."
    ).tag(config=True)
    slurm_timeout = Float(
        30.0, min=1.0, help="Seconds after which a silent Slurm command is stopped."
    ).tag(config=True)
    storage_timeout = Float(
        20.0, min=1.0, help="Seconds after which a silent quota or budget command is stopped."
    ).tag(config=True)
    gpu_interval = Float(1.0, min=0.2, help="Seconds between two GPU samples.").tag(config=True)
    show_all_gpus = Bool(
        False,
        help="""Show every GPU of the machine inside a job too, for sites whose Slurm does not
        manage the GPUs.""",
    ).tag(config=True)
    history_days = Float(
        3.0, min=0.1, max=90.0, help="How many days of finished jobs are listed."
    ).tag(config=True)
    gpus_enabled = Bool(True, help="Offer the GPU panel.").tag(config=True)
    jobs_enabled = Bool(True, help="Offer the list of jobs.").tag(config=True)
    job_actions_enabled = Bool(True, help="Offer cancel, hold, release, requeue.").tag(config=True)
    logs_enabled = Bool(True, help="Offer the logs of the user's own jobs.").tag(config=True)
    storage_enabled = Bool(True, help="Offer space, files and budget.").tag(config=True)

    batch_enabled = Bool(True, help="Offer “Run as batch job”.").tag(config=True)

    _services: Services | None = None
    _forward: Forward | None = None

    def initialize_settings(self) -> None:
        """Build the services; each of them starts only when it is used."""
        if self.serverapp is not None and self._forward is None:
            self._forward = Forward(logging.getLogger(self.serverapp.log.name))
            self._forward.begin()
        use_for_kernels(KernelProvisionerFactory.instance(parent=self.serverapp), os.environ)
        self._services = Services(self._node_settings(), os.environ, self._hooks())
        self.settings[SERVICES_KEY] = self._services

    def initialize_handlers(self) -> None:
        """Add the routes to the server."""
        self.handlers.extend([*ROUTES, *PAGES, NOWHERE])
        if self.serverapp is not None:
            register_schemas(self.serverapp.event_logger)
            loop = self.serverapp.io_loop
            loop.call_later(GPU_START_DELAY_SECONDS, self._start_gpu_history)
            loop.call_later(MEMORY_START_DELAY_SECONDS, self._watch_memory)
            loop.call_later(TELL_START_DELAY_SECONDS, self._tell_while_away)

    async def stop_extension(self) -> None:
        """End what the services started."""
        services, self._services = self._services, None
        if services is not None:
            await services.stop()
        if self._forward is not None:
            self._forward.end()
            self._forward = None

    def _node_settings(self) -> NodeSettings:
        return NodeSettings(
            slurm_prefix=tuple(self.slurm_prefix),
            slurm_user=self.slurm_user,
            command_paths=dict(self.command_paths),
            poll_seconds=self.poll_seconds,
            poll_seconds_after_action=self.poll_seconds_after_action,
            poll_floor=self.poll_floor,
            slurm_timeout=self.slurm_timeout,
            storage_timeout=self.storage_timeout,
            gpu_interval=self.gpu_interval,
            show_all_gpus=self.show_all_gpus,
            history_days=self.history_days,
            gpus_enabled=self.gpus_enabled,
            jobs_enabled=self.jobs_enabled,
            job_actions_enabled=self.job_actions_enabled,
            logs_enabled=self.logs_enabled,
            storage_enabled=self.storage_enabled,
            batch_enabled=self.batch_enabled,
        )

    def _hooks(self) -> ServerHooks:
        server = self.serverapp
        if server is None:
            return ServerHooks()

        async def list_sessions() -> list[Mapping[str, Any]]:
            return list(await ensure_async(server.session_manager.list_sessions()))

        def kernel_of(kernel_id: str) -> Any:
            return server.kernel_manager.get_kernel(kernel_id)

        def kernel_pid(kernel_id: str) -> int | None:
            try:
                provisioner = kernel_of(kernel_id).provisioner
            except KeyError:
                return None
            return getattr(provisioner, "pid", None)

        async def start_session(asked: Mapping[str, str]) -> None:
            sessions, contents = server.session_manager, server.contents_manager
            kernels: Any = server.kernel_manager
            path, kernel_id = asked["path"], asked["kernel_id"]
            if kernel_id not in kernels:
                folder = await ensure_async(contents.get_kernel_path(path=path))  # type: ignore[no-untyped-call]
                await ensure_async(
                    kernels.start_kernel(
                        kernel_id=kernel_id,
                        kernel_name=asked["kernel_name"],
                        path=folder,
                        env=sessions.get_kernel_env(path, asked["name"]),
                    )
                )
            members = {name: asked[name] for name in ("path", "name", "type", "kernel_id")}
            await ensure_async(sessions.save_session(asked["id"], **members))

        return ServerHooks(
            start_session=start_session,
            terminals=lambda: _shells(server.web_app.settings.get("terminal_manager")),
            open_terminal=lambda name, cwd: _open_terminal(
                server.web_app.settings.get("terminal_manager"), name, cwd
            ),
            on_leave=lambda: emit_leaves(server.event_logger, os.environ.get("SLURM_JOB_ID", "")),
            list_sessions=list_sessions,
            kernel_pid=kernel_pid,
            kernel_language=lambda kernel_id: str(kernel_of(kernel_id).kernel_spec.language),
            evaluate=lambda kernel_id, expression, seconds: evaluate(
                kernel_of(kernel_id), expression, seconds
            ),
            on_cancel=lambda job_id: emit_cancelled(server.event_logger, job_id),
            on_memory_kill=lambda kill: emit_out_of_memory(
                server.event_logger, [kernel.path for kernel in kill.kernels]
            ),
            on_submit=lambda job_id, path: emit_submitted(server.event_logger, job_id, path),
            contents_root=getattr(server.contents_manager, "root_dir", server.root_dir),
        )

    def _start_gpu_history(self) -> None:
        """Begin sampling where this job has GPUs, so that its history has a beginning."""
        if self._services is not None and self._services.has_gpus_to_watch():
            self._services.gpus.start()

    def _tell_while_away(self) -> None:
        """Tell the user of this session what no laptop is there to tell."""
        if self._services is not None and self._services.profile.name:
            self._services.away.start()

    def _watch_memory(self) -> None:
        """Notice what the system ends for want of memory, where a job's group counts it."""
        if self._services is not None:
            self._services.memory_kills.start()


def _shells(manager: Any) -> dict[str, int]:
    """The processes of terminals by name; a server without terminals has none."""
    open_now = getattr(manager, "terminals", {})
    return {name: terminal.ptyproc.pid for name, terminal in open_now.items()}


def _open_terminal(manager: Any, name: str, cwd: str) -> None:
    if manager is not None:
        manager.create(name=name, **({"cwd": cwd} if cwd else {}))
