"""What a job has left: its log and its files, seen through a runner."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.batch.runs import find_run, plain_id
from jupyter_hpc.errors import CommandFailed, JobNotFound, UsageError
from jupyter_hpc.runner import Runner

#: Lists the output folder $1 of the run $2: size and path, each ended by a null byte.
#: Hidden files are drafts and markers. A notebook that came from a laptop works in
#: work/, where everything newer than the frozen files is a result.
_LIST = r"""
cd -- "$1" || exit 1
find . -type f ! -name '.*' -printf '%s %P\0'
cd -- "$2" && [ -d work ] && find work -type f ! -name '.*' -newer conversion.json \
    -printf '%s %p\0'
true
"""

#: Bytes that one command brings.
CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True)
class ResultFile:
    """One file that a run has left: its place among the results, and on the cluster."""

    path: str
    size: int
    source: str


@dataclass(frozen=True)
class Results:
    """The output of a run on the cluster."""

    job_id: str
    run_dir: str
    files: tuple[ResultFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


async def results_of(runner: Runner, job_id: str) -> Results:
    """The files that a job has brought back so far; of one task, if the id names one."""
    run_dir = await find_run(runner, job_id)
    folder = _output(run_dir, job_id)
    done = await runner.run(["sh", "-c", _LIST, "sh", folder, run_dir])
    if not done.ok:
        raise JobNotFound(
            f"The results of job {job_id} are gone: {folder} cannot be read.", "Was it deleted?"
        )
    files = []
    for entry in done.stdout.split("\0"):
        size, _, path = entry.partition(" ")
        if path.startswith("work/"):
            files.append(ResultFile(f"files/{path[5:]}", int(size), f"{run_dir}/{path}"))
        elif path:
            files.append(ResultFile(path, int(size), posixpath.join(folder, path)))
    return Results(job_id, run_dir, tuple(sorted(files, key=lambda file: file.path)))


def _output(run_dir: str, job_id: str) -> str:
    task = job_id.partition("_")[2]
    return f"{run_dir}/output/{task}" if task.isdigit() else f"{run_dir}/output"


async def fetch_results(
    runner: Runner,
    results: Results,
    target: Path,
    progress: Callable[[ResultFile, int], None] | None = None,
) -> list[Path]:
    """Bring all files here; each appears when it is whole. `progress(file, bytes so far)`."""
    written: list[Path] = []
    for file in results.files:
        place = _place(target, file.path)
        draft = place.with_name(f".{place.name}.part")
        with draft.open("wb") as out:
            number = 0
            while number * CHUNK < file.size:
                out.write(await _chunk(runner, file.source, number))
                number += 1
                if progress is not None:
                    progress(file, min(number * CHUNK, file.size))
        draft.replace(place)
        written.append(place)
    return written


def _place(target: Path, path: str) -> Path:
    """Where a file goes; a name that leads out of the target folder is refused."""
    place = target / path
    if not place.resolve().is_relative_to(target.resolve()):
        raise UsageError(f"{path!r} would leave the target folder.", "It was not copied.")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


async def _chunk(runner: Runner, path: str, number: int) -> bytes:
    # Text survives every runner; bytes would not.
    script = 'dd if="$1" bs="$2" skip="$3" count=1 2> /dev/null | base64'
    done = await runner.run(
        ["sh", "-c", script, "sh", path, str(CHUNK), str(number)], timeout=300.0
    )
    try:
        data = base64.b64decode(done.stdout)
    except (binascii.Error, ValueError):
        data = b""
    if not done.ok or not data:
        raise CommandFailed(f"{path} could not be read.", "Try again; what is here is kept.")
    return data


async def exit_code(runner: Runner, job_id: str) -> int | None:
    """The code with which the program ended; of a sweep the highest one, None if it has not.

    The parts of a chain share one state, which is that of the part that ran last. A run
    of a sweep that left no state never came to its end, which counts as a failure.
    """
    run_dir = await find_run(runner, job_id)
    script = (
        'cd -- "$1" && cat state.json ./*/state.json 2> /dev/null; '
        'cd -- "$2" && ls -- parameters 2> /dev/null; true'
    )
    done = await runner.run(["sh", "-c", script, "sh", _output(run_dir, job_id), run_dir])
    codes = [int(code) for code in re.findall(r'"code": (\d+)', done.stdout)]
    runs = len(re.findall(r"^\d+\.json$", done.stdout, re.M))
    if codes and "_" not in job_id and len(codes) < runs:
        codes.append(1)
    return max(codes, default=None)


async def log_path(runner: Runner, job_id: str) -> str:
    """The newest log of a job or task."""
    run_dir = await find_run(runner, job_id)
    task = job_id.partition("_")[2]
    pattern = f"{plain_id(job_id)}_{task}.out" if task else f"{plain_id(job_id)}*.out"
    script = 'cd -- "$1/logs" && ls -t -- $2 2> /dev/null | head -n 1'
    done = await runner.run(["sh", "-c", script, "sh", run_dir, pattern])
    name = done.stdout.strip()
    if not name:
        raise JobNotFound(
            f"Job {job_id} has no log yet.", "It is written from the moment the job starts."
        )
    return f"{run_dir}/logs/{name}"


async def read_log(runner: Runner, path: str, start: int) -> tuple[str, int]:
    """What a log holds from byte `start` on, and where to go on reading."""
    script = 'tail -c "+$2" -- "$1" | head -c "$3" | base64'
    done = await runner.run(["sh", "-c", script, "sh", path, str(start + 1), str(CHUNK)])
    if not done.ok:
        raise CommandFailed(f"The log {path} could not be read.", "Was it deleted?")
    data = base64.b64decode(done.stdout)
    # A character that is not complete yet is read again with its rest.
    for cut in range(min(3, len(data)) + 1):
        part = data[: len(data) - cut]
        try:
            return part.decode("utf-8"), start + len(part)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace"), start + len(data)
