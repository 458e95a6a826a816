"""The events that this extension tells other parts of the server (jupyter-events)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_events import EventLogger

JOB_CANCELLED = "https://events.jupyter.org/jupyter_hpc/job_cancelled/v1"
SESSION_LEAVES = "https://events.jupyter.org/jupyter_hpc/session_leaves/v1"
OUT_OF_MEMORY = "https://events.jupyter.org/jupyter_hpc/out_of_memory/v1"
JOB_SUBMITTED = "https://events.jupyter.org/jupyter_hpc/job_submitted/v1"


def _schema(address: str, title: str, description: str, **members: str) -> dict[str, Any]:
    return {
        "$id": address,
        "version": "1",
        "title": title,
        "personal-data": True,
        "description": description,
        "type": "object",
        "required": list(members),
        "additionalProperties": False,
        "properties": {
            name: {"type": "string", "description": text} for name, text in members.items()
        },
    }


#: Written here, not in YAML files, whose reading would delay the start of every server.
SCHEMAS = (
    _schema(
        JOB_CANCELLED,
        "A job was cancelled",
        "Somebody cancelled a Slurm job from the panels.",
        job_id="The id as Slurm writes it, such as 123, 123_4 or 123_[2-4].",
    ),
    _schema(
        JOB_SUBMITTED,
        "A job was submitted",
        "Somebody submitted a notebook as a Slurm job.",
        job_id="The id that Slurm gave.",
        notebook="The notebook's path, as the file browser shows it.",
    ),
    _schema(
        SESSION_LEAVES,
        "The session moves on",
        "In a moment this page is served by another job, with new kernels.",
        job_id="The job that is left.",
    ),
    _schema(
        OUT_OF_MEMORY,
        "Out of memory",
        "The system has ended a kernel or another process of this session.",
        notebooks="The paths of the notebooks whose kernels were ended, a line for each.",
    ),
)


def emit_out_of_memory(logger: EventLogger | None, paths: Sequence[str]) -> None:
    """Kernels of these notebooks, or something else, were ended for want of memory."""
    if logger is not None:
        logger.emit(schema_id=OUT_OF_MEMORY, data={"notebooks": "\n".join(paths)})


def emit_leaves(logger: EventLogger | None, job_id: str) -> None:
    """The session moves on to a server in another job."""
    if logger is not None:
        logger.emit(schema_id=SESSION_LEAVES, data={"job_id": job_id})


def register_schemas(logger: EventLogger | None) -> None:
    """Make our events known, so that others can listen before the first one."""
    if logger is None:
        return
    for schema in SCHEMAS:
        logger.register_event_schema(schema)


def emit_cancelled(logger: EventLogger | None, job_id: str) -> None:
    """A job was cancelled."""
    if logger is not None:
        logger.emit(schema_id=JOB_CANCELLED, data={"job_id": job_id})


def emit_submitted(logger: EventLogger | None, job_id: str, notebook: str) -> None:
    """A notebook was submitted as a job."""
    if logger is not None:
        logger.emit(schema_id=JOB_SUBMITTED, data={"job_id": job_id, "notebook": notebook})
