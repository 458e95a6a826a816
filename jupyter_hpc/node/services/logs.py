"""The output of the user's own jobs, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_hpc.errors import PermissionRefused, UsageError
from jupyter_hpc.node.services.job_details import JobDetails
from jupyter_hpc.node.services.job_files import JobFiles
from jupyter_hpc.node.services.log_files import PIECE_BYTES, NotALog, Piece, read_piece
from jupyter_hpc.node.services.offload import Offload

STREAMS = ("stdout", "stderr")

#: A file system that does not answer within this is said to be silent.
READ_SECONDS = 10.0


@dataclass(frozen=True)
class LogPiece:
    """A piece of a job's log, or the sentence that says why there is none."""

    job: str
    stream: str
    path: str
    file: str | None
    size: int
    offset: int
    next_offset: int
    text: str
    eof: bool
    restarted: bool
    exists: bool
    message: str | None


class LogService:
    """Reads logs. The path comes from Slurm, never from the request."""

    def __init__(self, details: JobDetails, offload: Offload, *, enabled: bool = True) -> None:
        self._details = details
        self._offload = offload
        self._enabled = enabled

    async def read(
        self,
        job_id: str,
        stream: str = "stdout",
        offset: int | None = None,
        limit: int = PIECE_BYTES,
        file: str | None = None,
    ) -> LogPiece:
        """The piece from `offset` on, or the last `limit` bytes; see `read_piece`."""
        if not self._enabled:
            raise PermissionRefused("This site has switched off logs in JupyterLab.", "")
        if stream not in STREAMS:
            raise UsageError("There is no such stream.", f"Choose one of {', '.join(STREAMS)}.")
        if not 1 <= limit <= PIECE_BYTES or (offset is not None and offset < 0):
            raise UsageError(
                "There is no such piece.", f"Ask for 1 to {PIECE_BYTES} bytes from 0 on."
            )
        files = await self._details.files(job_id)
        path, message = _choose(files, stream)
        if path is None:
            return _nothing(job_id, stream, "", message)
        try:
            piece = await self._offload(
                read_piece, path, offset, limit, file, timeout=READ_SECONDS, about=f"{path!r}"
            )
        except FileNotFoundError:
            return _nothing(job_id, stream, path, _absent(files))
        except NotALog:
            return _nothing(job_id, stream, path, f"The job writes to {path}, which keeps nothing.")
        except OSError as error:
            reason = error.strerror or "unknown reason"
            return _nothing(job_id, stream, path, f"{path} cannot be read: {reason}.")
        return _log_piece(job_id, stream, path, piece, message)


def _choose(files: JobFiles, stream: str) -> tuple[str | None, str | None]:
    """(the path, a sentence to go with it)."""
    path = files.stdout if stream == "stdout" else files.stderr
    if path is None:
        return None, "This job has no log file: it was started interactively."
    if stream == "stderr" and files.stderr == files.stdout:
        return None, "Errors of this job go to the same file as its output."
    return path, None


def _absent(files: JobFiles) -> str:
    if files.guessed:
        return (
            "The job had ended before this server looked at it, and Slurm's default log file "
            "is not there: the job may have named another one, or it was removed."
        )
    return "There is no log file yet: the job has not started, or has not written anything."


def _nothing(job_id: str, stream: str, path: str, message: str | None) -> LogPiece:
    return LogPiece(job_id, stream, path, None, 0, 0, 0, "", True, False, False, message)


def _log_piece(job_id: str, stream: str, path: str, piece: Piece, message: str | None) -> LogPiece:
    return LogPiece(
        job=job_id,
        stream=stream,
        path=path,
        file=piece.file,
        size=piece.size,
        offset=piece.offset,
        next_offset=piece.next_offset,
        text=piece.text,
        eof=piece.eof,
        restarted=piece.restarted,
        exists=True,
        message=message,
    )
