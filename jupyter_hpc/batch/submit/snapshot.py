"""A run folder: the notebook, its modules and its parameters as they were at submit."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from jupyter_hpc.batch.convert.reading import companion_bytes
from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.files import REPORT, conversion_files, encoded, stem
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.errors import CommandFailed
from jupyter_hpc.runner import Runner
from jupyter_hpc.text import printable

_UPLOAD_SECONDS = 600.0

#: A larger archive goes as a file, which a cut does not lose; a smaller one with the command.
_MAX_WITH_COMMAND_BYTES = 4_000_000

#: Makes these bytes a file of this path there; False if it cannot, and another way is taken.
Send = Callable[[bytes, str], Awaitable[bool]]


def run_files(
    notebook: bytes, conversion: Conversion, job: BatchJob, modules: Mapping[str, Path]
) -> dict[str, bytes]:
    """All files of a run folder, by their path in it."""
    name = stem(conversion.notebook)
    texts = {**conversion_files(conversion, script_text(job)), **job_texts(job)}
    files = {path: encoded(text) for path, text in texts.items()}
    files[f"{name}.ipynb"] = notebook
    for path, source in modules.items():
        files[f"modules/{path}"] = companion_bytes(source)
    return files


def job_texts(job: BatchJob) -> dict[str, str]:
    """What the job reads beside its program: parameters, and the plan of its folder."""
    texts: dict[str, str] = {}
    if job.sweep:
        for number, values in enumerate(job.sweep, 1):
            texts[f"parameters/{number}.json"] = as_json({**job.parameters, **values})
    elif job.parameters:
        texts["parameters.json"] = as_json(dict(job.parameters))
    folder = job.folder.to_json() if job.folder is not None else None
    if job.staging is not None:
        texts["staging.json"] = as_json({**job.staging.to_json(), "folder": folder})
    elif folder is not None:
        texts["folder.json"] = as_json(folder)
    return texts


def notify_file(settings: NotifySettings, notebook: str) -> bytes:
    """What the job needs to tell of its end; the archive makes it its owner's alone."""
    fields = {
        "notebook": printable(notebook, 100),
        "webhook": settings.webhook,
        "command": list(settings.command),
    }
    return encoded(as_json(fields))


def as_json(value: object) -> str:
    """How a run folder holds values."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def archive(files: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> bytes:
    """The files as one tar, readable by their owner only."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(entry)
        # Results are what is newer than the report, so it is unpacked last.
        for name, data in sorted(files.items(), key=lambda file: file[0] == REPORT):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            if data.startswith(b"#!"):
                entry.mode = 0o700
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


#: Makes the run folder $1 of the archive $2. Where others may write, the folders around it are
#: for all of them to submit in, and sticky: only who has made them can move what others made.
_MAKE = r"""
around() {
    [ ! -d "$1" ] || return 0
    around "$(dirname -- "$1")" || return
    mkdir -- "$1" || { [ -d "$1" ]; return; }
    case $(stat -c %a -- "$(dirname -- "$1")") in
        *[2367]) chmod 1777 -- "$1" ;;
        *[2367]?) chmod 1770 -- "$1" ;;
    esac
}
umask 077
# The clock of a laptop may be wrong: with -m all times are those of the cluster.
code=1
# A draft that is there belongs to another submit.
if [ ! -e "$1" ] && around "$(dirname -- "$1")" && mkdir -- "$1.draft"; then
    tar -xmof "$2" -C "$1.draft" && mv -- "$1.draft" "$1" && code=0
    rm -rf -- "$1.draft"
fi
rm -f -- "$1.tar"
exit "$code"
"""


async def create_run_folder(
    runner: Runner, folder: str, files: Mapping[str, bytes], send: Send | None = None
) -> None:
    """Make the folder where the runner runs; it appears whole or not at all.

    `send` is a better way for much data than the runner's, where there is one.
    """
    data, stdin = archive(files, ("logs", "output", "checkpoints")), "-"
    large = len(data) > _MAX_WITH_COMMAND_BYTES
    if send is not None and large and await send(data, f"{folder}.tar"):
        data, stdin = b"", f"{folder}.tar"
    done = await runner.run(
        ["sh", "-c", _MAKE, "sh", folder, stdin],
        stdin=data,
        timeout=_UPLOAD_SECONDS,
    )
    if not done.ok:
        raise CommandFailed(
            f"The run folder {folder!r} could not be made: {_reason(done.stderr)}",
            "Copy the notebook to a folder in which you may write, and submit it there."
            if "ermission denied" in done.stderr or "ead-only" in done.stderr
            else "Is the file system full, or the folder not yours?",
        )


def _reason(said: str) -> str:
    """What tar and mkdir say, in one line; of a full disk they tell for each file."""
    for words in ("No space left on device", "Disk quota exceeded"):
        if words in said:
            return f"{words}."
    return printable(said.strip(), 300)


async def remove_run_folder(runner: Runner, folder: str) -> None:
    """Delete a folder that create_run_folder has just made; what has run is never deleted."""
    script = 'rmdir -- "$1/logs" "$1/output" && rm -rf -- "$1"'
    await runner.run(["sh", "-c", script, "sh", folder])
