"""All services of the extension, each built when it is first asked for.

A server whose user never opens a panel pays for none of them: neither their
imports nor their threads. Only the small file of the profile is read at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from jupyter_hpc.node.services.hooks import ServerHooks
from jupyter_hpc.node.settings import NodeSettings

if TYPE_CHECKING:
    from jupyter_hpc.batch.runs.endings import Left
    from jupyter_hpc.gpu.sample import GpuSource
    from jupyter_hpc.node.services.away import AwayNotices
    from jupyter_hpc.node.services.batch import BatchService
    from jupyter_hpc.node.services.cluster import ClusterService
    from jupyter_hpc.node.services.commands import SiteRunner
    from jupyter_hpc.node.services.curves import CurveService, RunFolders
    from jupyter_hpc.node.services.figures import FigureService
    from jupyter_hpc.node.services.gpus import GpuService
    from jupyter_hpc.node.services.identity import Identity
    from jupyter_hpc.node.services.job_details import JobDetails
    from jupyter_hpc.node.services.jobs import JobsService
    from jupyter_hpc.node.services.logs import LogService
    from jupyter_hpc.node.services.memory_kills import MemoryKills
    from jupyter_hpc.node.services.modules import ModuleService
    from jupyter_hpc.node.services.nodes import NodesService
    from jupyter_hpc.node.services.notebooks import Notebooks
    from jupyter_hpc.node.services.offload import Offload
    from jupyter_hpc.node.services.overview import OverviewService
    from jupyter_hpc.node.services.partitions import PartitionService
    from jupyter_hpc.node.services.profile import SiteProfile
    from jupyter_hpc.node.services.reports import ReportService
    from jupyter_hpc.node.services.runs import RunsService
    from jupyter_hpc.node.services.session import SessionService
    from jupyter_hpc.node.services.storage import StorageService
    from jupyter_hpc.node.services.stream import Stream
    from jupyter_hpc.node.services.tensorboard import TensorboardService
    from jupyter_hpc.node.services.trials import TrialService
    from jupyter_hpc.node.services.variables import VariablesService
    from jupyter_hpc.node.services.workbench import WorkbenchService
    from jupyter_hpc.slurm.client import SlurmClient


class Services:
    """The services of one server; `stop` ends what they started."""

    def __init__(
        self,
        settings: NodeSettings,
        environ: Mapping[str, str],
        hooks: ServerHooks | None = None,
    ) -> None:
        self.settings = settings
        self.environ = environ
        self.hooks = hooks or ServerHooks()
        self.profile = self._read_profile()

    @cached_property
    def identity(self) -> Identity:
        from jupyter_hpc.node.services.identity import Identity, current_identity

        other = self.settings.slurm_user
        return Identity(other, None) if other else current_identity()

    @cached_property
    def offload(self) -> Offload:
        from jupyter_hpc.node.services.offload import Offload

        return Offload()

    def _read_profile(self) -> SiteProfile:
        """Now and never again: while the server starts it reads its other files, too; later
        its event loop would stand still with a home that hangs."""
        from jupyter_hpc.node.services.profile import SiteProfile

        return SiteProfile.from_environment(self.environ)

    @cached_property
    def _site_runner(self) -> SiteRunner:
        from jupyter_hpc.node.services.commands import SiteRunner
        from jupyter_hpc.runner import LocalRunner

        prefix = self.settings.slurm_prefix or self.profile.slurm_prefix
        return SiteRunner(LocalRunner(), prefix, self.settings.command_paths)

    @cached_property
    def client(self) -> SlurmClient:
        from jupyter_hpc.slurm.client import SlurmClient

        return SlurmClient(self._site_runner, timeout=self.settings.slurm_timeout)

    @cached_property
    def session(self) -> SessionService:
        from jupyter_hpc.node.services.session import SessionService

        return SessionService(
            self.environ,
            self.profile,
            self.identity.name,
            self._features(),
            self.client.job,
            self.offload,
            self.jobs.known,
            lambda: self.memory_kills.recent,
        )

    @cached_property
    def _notebooks(self) -> Notebooks:
        from jupyter_hpc.node.services.notebooks import Notebooks

        return Notebooks(self.hooks.list_sessions, self.hooks.kernel_pid)

    @cached_property
    def memory_kills(self) -> MemoryKills:
        from jupyter_hpc.node.services.memory_kills import MemoryKills

        return MemoryKills(self._notebooks.kernels, self.hooks.on_memory_kill)

    @cached_property
    def gpus(self) -> GpuService:
        from jupyter_hpc.node.services.gpus import GpuService

        return GpuService(
            self._open_gpus,
            self.settings.gpu_interval,
            self._notebooks,
            enabled=self.settings.gpus_enabled,
        )

    @cached_property
    def away(self) -> AwayNotices:
        from jupyter_hpc.node.services.away import of_this_job

        gpus = self.gpus.read if self.has_gpus_to_watch() else None
        return of_this_job(self.environ, self.profile, self.session, gpus, self.offload)

    @cached_property
    def nodes(self) -> NodesService:
        import platform

        from jupyter_hpc.node.services.nodes import NodesService
        from jupyter_hpc.slurm.job_environment import read_job_environment

        return NodesService(
            read_job_environment(self.environ),
            self.environ.get("SLURMD_NODENAME") or platform.node(),
            self.client,
            self._site_runner.rewritten,
            enabled=self.settings.gpus_enabled,
        )

    @cached_property
    def jobs(self) -> JobsService:
        from jupyter_hpc.node.services.jobs import JobsService

        return JobsService(
            self.client,
            self.settings,
            self.identity,
            poll_seconds=self.profile.poll_seconds,
            on_cancel=self.hooks.on_cancel,
        )

    @cached_property
    def details(self) -> JobDetails:
        from jupyter_hpc.node.services.job_details import JobDetails

        profile = self.profile.resolved()
        return JobDetails(
            self.client,
            self.jobs,
            self.identity,
            self.offload,
            find_run=self._find_run,
            left_by=self._left_by,
            gpu_flag=self.profile.gpu_flag,
            budget=profile.budget if profile is not None else None,
            contents_root=self.hooks.contents_root,
        )

    @cached_property
    def logs(self) -> LogService:
        from jupyter_hpc.node.services.logs import LogService

        return LogService(self.details, self.offload, enabled=self.settings.logs_enabled)

    @cached_property
    def reports(self) -> ReportService:
        from jupyter_hpc import __version__
        from jupyter_hpc.batch.runs.report.gathering import gather
        from jupyter_hpc.node.services.reports import ReportService
        from jupyter_hpc.runner import LocalRunner

        flag = self.profile.gpu_flag
        ask = partial(gather, LocalRunner(), self.client, version=__version__, gpu_flag=flag)
        return ReportService(ask, self.offload)

    @cached_property
    def run_folders(self) -> RunFolders:
        from jupyter_hpc.node.services.curves import RunFolders

        return RunFolders(self._find_run)

    @cached_property
    def curves(self) -> CurveService:
        from jupyter_hpc.node.services.curves import CurveService

        enabled = self.settings.logs_enabled
        return CurveService(self.run_folders, self.offload, enabled=enabled)

    @cached_property
    def overviews(self) -> OverviewService:
        from jupyter_hpc.node.services.overview import OverviewService

        return OverviewService(
            self.details,
            self.jobs,
            self.run_folders,
            self.curves,
            contents_root=self.hooks.contents_root,
            enabled=self.settings.logs_enabled,
        )

    @cached_property
    def figures(self) -> FigureService:
        from jupyter_hpc.node.services.figures import FigureService

        return FigureService(self.run_folders, self.offload)

    @cached_property
    def storage(self) -> StorageService:
        from jupyter_hpc.node.services.budget import BudgetReader
        from jupyter_hpc.node.services.commands import SiteRunner
        from jupyter_hpc.node.services.storage import StorageService
        from jupyter_hpc.runner import LocalRunner

        runner = SiteRunner(LocalRunner(), (), self.settings.command_paths)
        timeout = self.settings.storage_timeout
        return StorageService(
            self.profile,
            self.environ,
            self.identity.name,
            runner,
            self.offload,
            BudgetReader(self.profile, runner, self.client, timeout),
            timeout=timeout,
            enabled=self.settings.storage_enabled,
        )

    @cached_property
    def partitions(self) -> PartitionService:
        from jupyter_hpc.node.services.partitions import PartitionService

        return PartitionService(self.client)

    @cached_property
    def modules(self) -> ModuleService:
        from jupyter_hpc.node.services.modules import ModuleService
        from jupyter_hpc.runner import LocalRunner

        profile = self.profile.resolved()
        login_shell = profile is not None and profile.environment.shell == "login"
        return ModuleService(LocalRunner(), login_shell=login_shell)

    @cached_property
    def cluster(self) -> ClusterService:
        from jupyter_hpc.node.services.cluster import ClusterService

        return ClusterService(self.client, self.partitions, self.profile.poll_seconds or 0.0)

    @cached_property
    def batch(self) -> BatchService:
        from jupyter_hpc.node.services.batch import BatchService
        from jupyter_hpc.runner import LocalRunner

        def submitted(job_id: str, path: str) -> None:
            self.jobs.note_action()
            self.runs.note_change()
            self.hooks.on_submit(job_id, path)

        return BatchService(
            self.client,
            self.partitions,
            LocalRunner(),
            self.offload,
            profile=self.profile.resolved(),
            contents_root=self.hooks.contents_root,
            on_submit=submitted,
            enabled=self.settings.batch_enabled,
        )

    @cached_property
    def runs(self) -> RunsService:
        from jupyter_hpc.node.services.runs import RunsService
        from jupyter_hpc.runner import LocalRunner

        return RunsService(
            LocalRunner(),
            self.client,
            self.offload,
            contents_root=self.hooks.contents_root,
            poll_seconds=self.profile.poll_seconds or 0.0,
            enabled=self.settings.batch_enabled,
            may_delete=self.settings.job_actions_enabled,
        )

    @cached_property
    def trials(self) -> TrialService:
        from jupyter_hpc.node.services.trials import TrialService

        return TrialService(self.batch, self.partitions, self.offload, self.environ)

    @cached_property
    def tensorboard(self) -> TensorboardService:
        from jupyter_hpc.node.services.tensorboard import TensorboardService

        return TensorboardService(self.environ, self.hooks.contents_root, self.offload)

    @cached_property
    def workbench(self) -> WorkbenchService:
        from jupyter_hpc.node.services.workbench import WorkbenchService

        return WorkbenchService(self.hooks, self.variables)

    @cached_property
    def variables(self) -> VariablesService:
        from jupyter_hpc.node.services.variables import VariablesService

        return VariablesService(self.hooks, self.environ)

    def open_stream(self, send: Callable[[bytes], Awaitable[None]]) -> Stream:
        """A stream to one browser tab."""
        from jupyter_hpc.node.services.stream import Stream

        return Stream(self, send)

    def has_gpus_to_watch(self) -> bool:
        """Whether the history of the GPUs is worth starting before anybody looks."""
        from jupyter_hpc.gpu.simulated import SIMULATED_VARIABLE

        named = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", SIMULATED_VARIABLE)
        return self.settings.gpus_enabled and any(self.environ.get(name) for name in named)

    def _open_gpus(self) -> GpuSource:
        """Called in the sampler's thread."""
        from jupyter_hpc.gpu.choose import open_source
        from jupyter_hpc.slurm.job_environment import read_job_environment

        job = read_job_environment(self.environ)
        return open_source(
            self.environ,
            allocated=job.gpu_list if job else None,
            in_job=job is not None,
            show_all=self.settings.show_all_gpus,
        )

    async def _find_run(self, job_id: str) -> str:
        """The folder of a run that was submitted by this product; JobNotFound for others."""
        from jupyter_hpc.batch.submit.runs import find_run
        from jupyter_hpc.runner import LocalRunner

        return await find_run(LocalRunner(), job_id, ask_slurm=False)

    async def _left_by(self, job_id: str) -> Left | None:
        """What such a run has left about its end."""
        from jupyter_hpc.batch.runs.endings import left_by
        from jupyter_hpc.runner import LocalRunner

        return (await left_by(LocalRunner(), [job_id])).get(job_id)

    def _features(self) -> dict[str, bool]:
        settings = self.settings
        return {
            "gpus": settings.gpus_enabled,
            "jobs": settings.jobs_enabled,
            "job_actions": settings.job_actions_enabled,
            "logs": settings.logs_enabled,
            "storage": settings.storage_enabled,
            "batch": settings.batch_enabled,
        }

    async def stop(self) -> None:
        """End threads and tasks of those services that were used."""
        names = (
            *("gpus", "memory_kills", "away", "nodes", "session", "jobs", "details", "storage"),
            *("partitions", "modules", "cluster", "batch", "runs", "tensorboard", "trials"),
            "variables",
        )
        used = [self.__dict__[name] for name in names if name in self.__dict__]
        # Together: each may have to wait for something that hangs, and the server does not.
        await asyncio.gather(*(service.stop() for service in used))
