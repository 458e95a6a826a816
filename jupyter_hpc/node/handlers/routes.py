"""The route table: every address of the extension, in one place."""

from __future__ import annotations

from tornado.web import RequestHandler

from jupyter_hpc.node.handlers.base import NoSuchAddress
from jupyter_hpc.node.handlers.batch import ConvertHandler, SubmitHandler
from jupyter_hpc.node.handlers.gpus import GpuHistoryHandler, GpusHandler, NodesHandler
from jupyter_hpc.node.handlers.jobs import (
    JobActionHandler,
    JobFigureHandler,
    JobGpusHandler,
    JobHandler,
    JobLogHandler,
    JobOverviewHandler,
    JobReportHandler,
    JobsHandler,
)
from jupyter_hpc.node.handlers.runs import (
    RunAgainHandler,
    RunArchiveHandler,
    RunContentsHandler,
    RunCurvesHandler,
    RunsDeleteHandler,
    RunsHandler,
)
from jupyter_hpc.node.handlers.session import SessionHandler
from jupyter_hpc.node.handlers.site import (
    ClusterHandler,
    ModulesHandler,
    PartitionsHandler,
    StorageHandler,
)
from jupyter_hpc.node.handlers.stream import StreamHandler
from jupyter_hpc.node.handlers.tensorboard import TensorboardHandler, TensorboardPageHandler
from jupyter_hpc.node.handlers.trials import TrialHandler
from jupyter_hpc.node.handlers.workbench import LeaveHandler, RestoredHandler, RestoreHandler

_RUN = r"/jupyter-hpc/runs/(?P<run_id>[0-9_]+)"
_JOB = r"/jupyter-hpc/jobs/(?P<job_id>[^/]+)"

#: What is asked for below our name and does not exist; last of all.
NOWHERE: tuple[str, type[RequestHandler]] = (r"/jupyter-hpc/.*", NoSuchAddress)

#: Pages of programs beside the server, and files of runs; no part of the described interface.
PAGES: list[tuple[str, type[RequestHandler]]] = [
    (r"/jupyter-hpc/tensorboard/(?P<board_id>[0-9]+)/(?P<target>.*)", TensorboardPageHandler),
    (_RUN + r"/results.zip", RunArchiveHandler),
    (_JOB + r"/figures/(?P<name>.+)", JobFigureHandler),
]

ROUTES: list[tuple[str, type[RequestHandler]]] = [
    (r"/jupyter-hpc/session", SessionHandler),
    (r"/jupyter-hpc/gpus", GpusHandler),
    (r"/jupyter-hpc/gpus/history", GpuHistoryHandler),
    (r"/jupyter-hpc/nodes", NodesHandler),
    (r"/jupyter-hpc/jobs", JobsHandler),
    (_JOB, JobHandler),
    (_JOB + r"/overview", JobOverviewHandler),
    (_JOB + r"/log", JobLogHandler),
    (_JOB + r"/gpus", JobGpusHandler),
    (_JOB + r"/report", JobReportHandler),
    (_JOB + r"/(?P<action>cancel|hold|release|requeue)", JobActionHandler),
    (r"/jupyter-hpc/runs", RunsHandler),
    (r"/jupyter-hpc/runs/curves", RunCurvesHandler),
    (r"/jupyter-hpc/runs/contents", RunContentsHandler),
    (r"/jupyter-hpc/runs/delete", RunsDeleteHandler),
    (_RUN + r"/again", RunAgainHandler),
    (r"/jupyter-hpc/storage", StorageHandler),
    (r"/jupyter-hpc/partitions", PartitionsHandler),
    (r"/jupyter-hpc/modules", ModulesHandler),
    (r"/jupyter-hpc/cluster", ClusterHandler),
    (r"/jupyter-hpc/convert", ConvertHandler),
    (r"/jupyter-hpc/submit", SubmitHandler),
    (r"/jupyter-hpc/trial", TrialHandler),
    (r"/jupyter-hpc/tensorboard", TensorboardHandler),
    (r"/jupyter-hpc/leave", LeaveHandler),
    (r"/jupyter-hpc/restore", RestoreHandler),
    (r"/jupyter-hpc/restored", RestoredHandler),
    (r"/jupyter-hpc/stream", StreamHandler),
]
