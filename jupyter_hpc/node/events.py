"""The events that this extension tells other parts of the server (jupyter-events)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_events import EventLogger

JOB_CANCELLED = "https://events.jupyter.org/jupyter_hpc/job_cancelled/v1"
JOB_SUBMITTED = "https://events.jupyter.org/jupyter_hpc/job_submitted/v1"

_FOLDER = Path(__file__).parent / "event_schemas"


def register_schemas(logger: EventLogger | None) -> None:
    """Make our events known, so that others can listen before the first one."""
    if logger is None:
        return
    for path in sorted(_FOLDER.glob("*.yaml")):
        logger.register_event_schema(path)


def emit_cancelled(logger: EventLogger | None, job_id: str) -> None:
    """A job was cancelled."""
    if logger is not None:
        logger.emit(schema_id=JOB_CANCELLED, data={"job_id": job_id})


def emit_submitted(logger: EventLogger | None, job_id: str, notebook: str) -> None:
    """A notebook was submitted as a job."""
    if logger is not None:
        logger.emit(schema_id=JOB_SUBMITTED, data={"job_id": job_id, "notebook": notebook})
