"""What a job has left: its log and its files, seen through a runner."""

from __future__ import annotations

import base64
import binascii
import json
import os
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jupyter_hpc.batch.job.files import FOLDER
from jupyter_hpc.batch.runtime.job.own_folder import INPUTS, LINKED
from jupyter_hpc.batch.runtime.job.staging import DRAFT
from jupyter_hpc.batch.runtime.runs.collect import RUN_FILE
from jupyter_hpc.batch.submit.runs import find_run, plain_id
from jupyter_hpc.errors import CommandFailed, JobNotFound, UsageError
from jupyter_hpc.runner import Runner

#: Files, links and empty folders, for `find`.
_WANTED = r"\( -type f -o -type l -o -type d -empty \)"

#: Leaves the output folder of the run $1 and its task $2 in $output: only the runs of a
#: sweep have folders of their own, the parts of a chain share one. Code 3: no such run.
_OUTPUT = r"""
output=$1/output
if [ -n "$2" ] && [ -d "$1/parameters" ]; then
    [ -e "$1/parameters/$2.json" ] || exit 3
    output=$1/output/$2
fi
"""

#: Lists that folder: for each entry its kind, size, time and path, then where it leads if it
#: is a link, each of the two ended by a null byte; empty folders are entries, too. First
#: come the lists of what runs were given, which is no result, and a "c" for each run that has
#: not compared what its links lead to, since it goes on or was killed. A run that has not begun has
#: nothing. A notebook that came from a laptop works in work/, where everything newer than
#: the frozen files is a result.
_LIST = f"""
cd -- "$1/output" || exit 1
{_OUTPUT}
printf '%s\\0' "$output"
cd -- "$output" 2> /dev/null || exit 0
for list in {INPUTS} [0-9]*/{INPUTS}; do
    [ -e "$list" ] && printf 'i 0 0 %s\\0' "${{list%{INPUTS}}}" && cat -- "$list" && printf '\\0'
done
for list in {LINKED} [0-9]*/{LINKED}; do [ -e "$list" ] && printf 'c 0 0 \\0\\0'; done
find . -mindepth 1 {_WANTED} -printf '%y %s %T@ %P\\0%l\\0'
cd -- "$1" && [ -d work ] && find work {_WANTED} -newer conversion.json \
    -printf '%y %s %T@ %p\\0%l\\0'
true
"""

#: What _OUTPUT ends with where a sweep has no such run.
_NO_RUN = 3

#: Bytes that one command brings.
CHUNK_BYTES = 4 * 1024 * 1024

#: How often a file is begun that was replaced while it was read.
_ATTEMPTS = 3


@dataclass(frozen=True)
class ResultFile:
    """One file that a run has left: its path among the results, and on the cluster."""

    path: str
    size: int
    source: str
    #: Where it leads, if it is a link.
    link: str = ""
    is_folder: bool = False


@dataclass(frozen=True)
class Results:
    """The output of a run on the cluster."""

    job_id: str
    run_dir: str
    files: tuple[ResultFile, ...]
    #: A run has not yet looked whether files outside of its folder were changed.
    uncompared: bool = False

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Fetched:
    """What was brought here, and what was not, with the reason."""

    written: tuple[Path, ...]
    left: Mapping[str, str]


async def results_of(runner: Runner, job_id: str) -> Results:
    """The files that a job has brought back so far; of one task, if the id names one."""
    run_dir = await find_run(runner, job_id)
    done = await runner.run(["sh", "-c", _LIST, "sh", run_dir, _task(job_id)])
    if done.returncode == _NO_RUN:
        raise _no_such_run(job_id)
    if not done.ok:
        raise JobNotFound(
            f"The results of job {job_id} are gone: {run_dir}/output cannot be read.",
            "Was it deleted?",
        )
    folder, *fields = done.stdout.split("\0")
    given: set[tuple[str, ...]] = set()
    files = []
    uncompared = False
    for entry, more in zip(fields[::2], fields[1::2], strict=False):
        kind, size, time, path = entry.split(" ", 3)
        if kind == "i":
            given |= _inputs(path, more)
        elif kind == "c":
            uncompared = True
        elif _state(path, kind, size, time, more) not in given and not _is_mark(path):
            source = posixpath.join(folder, path)
            if path.startswith("work/"):
                source, path = f"{run_dir}/{path}", f"files/{path[5:]}"
            length = int(size) if kind == "f" else 0
            files.append(ResultFile(path, length, source, more, kind == "d"))
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return Results(job_id, run_dir, ordered, uncompared)


def _no_such_run(job_id: str) -> JobNotFound:
    sweep = plain_id(job_id)
    return JobNotFound(
        f"The sweep {sweep} has no run {_task(job_id)}.",
        f"Leave the number out to have all of them: {sweep}.",
    )


def _inputs(folder: str, text: str) -> set[tuple[str, ...]]:
    """What a run was given: it is no result as long as it is unchanged."""
    try:
        content = json.loads(text)
    except ValueError:
        return set()
    found: set[tuple[str, ...]] = set()
    for name, (kind, *state) in content.items():
        path = f"{folder}files/{name}"
        if kind == "file":
            seconds = f"{state[1] // 10**9}.{state[1] % 10**9:09d}0"
            found.add((path, "f", str(state[0]), seconds))
        else:
            found.add((path, "l", state[0]) if kind == "link" else (path, "d"))
    return found


def _state(path: str, kind: str, size: str, time: str, link: str) -> tuple[str, ...]:
    """An entry as `_inputs` knows it."""
    if kind == "f":
        return (path, kind, size, time)
    return (path, kind, link) if kind == "l" else (path, kind)


def _is_mark(path: str) -> bool:
    """Whether a file is one of our own drafts and marks; a program may well write hidden ones."""
    name = posixpath.basename(path)
    own = re.match(r"(?:\d+/)?files[^/]*/|work/", path) is None or path == f"work/.{FOLDER}"
    return (own and name.startswith(".")) or name.endswith(DRAFT) or "__pycache__/" in path


def _task(job_id: str) -> str:
    task = job_id.partition("_")[2]
    return task if task.isdigit() else ""


#: Brings files into a folder here, no more of each than its size, and tells of their bytes so
#: far; why each that is left is. None of them if it cannot: then they come another way.
Bring = Callable[
    [Sequence[ResultFile], Path, Callable[[ResultFile, int], None]],
    Awaitable["Mapping[str, str] | None"],
]


async def fetch_results(
    runner: Runner,
    results: Results,
    target: Path,
    progress: Callable[[ResultFile, int], None] | None = None,
    bring: Bring | None = None,
) -> Fetched:
    """Bring all files here; each appears when it is whole. `progress(file, bytes so far)`.

    `bring` is a faster way than by the runner's commands, where there is one. A running job may
    delete and replace its files meanwhile: what cannot be had whole, or has a name that leads
    elsewhere, is left out with a reason. Raises UsageError if the files cannot be written here.
    """
    written: list[Path] = []
    left: dict[str, str] = {}
    brought: set[str] = set()
    if bring is not None:
        plain = [file for file in results.files if not file.link and not file.is_folder]
        named = [file for file in plain if "\N{REPLACEMENT CHARACTER}" not in file.path]
        missed = await bring(named, target, progress or _unheard)
        if missed is not None:
            brought = {file.path for file in named}
            left |= missed
            written += [target / path for path in sorted(brought - set(missed))]
    # Links come last: what is fetched must not go through one of them.
    for file in sorted(results.files, key=lambda file: bool(file.link)):
        if "\N{REPLACEMENT CHARACTER}" in file.path + file.link:
            left[file.path] = "its name is not UTF-8"
            continue
        if file.path in brought:
            continue
        try:
            local_path = _target_of(target, file.path)
            why = "its name leads out of the folder"
            if local_path is not None:
                why = await _bring(runner, file, local_path, progress)
        except OSError as error:
            raise UsageError(
                f"{file.path!r} cannot be written to {str(target)!r}: {error.strerror}.",
                "Choose another folder with -o; what is here is kept.",
            ) from error
        if why or local_path is None:
            left[file.path] = why
        else:
            written.append(local_path)
    return Fetched(tuple(written), left)


def _unheard(file: ResultFile, so_far: int) -> None:
    """Nobody looks at the progress."""


async def _bring(
    runner: Runner,
    file: ResultFile,
    local_path: Path,
    progress: Callable[[ResultFile, int], None] | None,
) -> str:
    """Bring one result here, a link as a link; why it could not be had, else empty."""
    if file.is_folder:
        os.makedirs(local_path, exist_ok=True)
        return ""
    # The name of a file has 255 bytes, and a character up to four.
    draft = local_path.with_name(f".{local_path.name[:50]}.part")
    if file.link:
        draft.unlink(missing_ok=True)
        draft.symlink_to(file.link)
    elif why := await _fetch(runner, file, draft, progress):
        draft.unlink()
        return why
    draft.replace(local_path)
    return ""


async def _fetch(
    runner: Runner,
    file: ResultFile,
    draft: Path,
    progress: Callable[[ResultFile, int], None] | None,
) -> str:
    """Bring one file into the draft; why it could not be had whole, else empty."""
    for _ in range(_ATTEMPTS):
        state, data = await _chunk(runner, file.source, 0)
        first, number = state, 0
        with _new(draft) as out:
            while state == first and data:
                # What has grown since it was announced is whole up to there.
                out.write(data[: max(0, file.size - number * CHUNK_BYTES)])
                number += 1
                if progress is not None:
                    progress(file, min(number * CHUNK_BYTES, file.size))
                if len(data) < CHUNK_BYTES:
                    break
                state, data = await _chunk(runner, file.source, number)
        if not first:
            return "it was deleted meanwhile"
        if state == first:
            return ""
    return "it is being written"


def _new(draft: Path) -> BinaryIO:
    """The file, made anew: a link that an earlier fetch brought here may have its name."""
    draft.unlink(missing_ok=True)
    return draft.open("xb")


def _target_of(target: Path, path: str) -> Path | None:
    """Where a file goes; None for a name that leads out of the target folder."""
    local_path = target / path
    # Only the folders around it count: where a link was fetched before, it is replaced.
    if not local_path.parent.resolve().is_relative_to(target.resolve()) or ".." in Path(path).parts:
        return None
    local_path.parent.mkdir(parents=True, exist_ok=True)
    return local_path


async def _chunk(runner: Runner, path: str, number: int) -> tuple[str, bytes]:
    """Which file it is now, and a part of it; no state: there is none any more."""
    # Text survives every runner; bytes would not.
    script = (
        '[ -e "$1" ] || exit 0; stat -c "%i %s %y" -- "$1" && '
        'dd if="$1" bs="$2" skip="$3" count=1 2> /dev/null | base64'
    )
    done = await runner.run(
        ["sh", "-c", script, "sh", path, str(CHUNK_BYTES), str(number)], timeout=300.0
    )
    state, _, text = done.stdout.partition("\n")
    try:
        data = base64.b64decode(text)
    except (binascii.Error, ValueError):
        data = b""
    size = int(state.split()[1]) if state else 0
    if not done.ok or (not data and size > number * CHUNK_BYTES):
        raise CommandFailed(f"{path} could not be read.", "Try again; what is here is kept.")
    return state, data


async def exit_code(runner: Runner, job_id: str) -> int | None:
    """The code with which the program ended; of a sweep the highest one, None if it has not.

    The parts of a chain share one state, which is that of the part that ran last. A run
    of a sweep that left no state never came to its end, which counts as a failure.
    """
    run_dir = await find_run(runner, job_id)
    # Only a sweep has folders with states; those in others are files of the notebook.
    script = _OUTPUT + (
        'cd -- "$1" && ls -- parameters 2> /dev/null && states="./[0-9]*/state.json"; '
        'cd -- "$output" && cat state.json $states 2> /dev/null; true'
    )
    done = await runner.run(["sh", "-c", script, "sh", run_dir, _task(job_id)])
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
    script = f'{_OUTPUT}\ncd -- "$1/logs" && ls -t -- $3 2> /dev/null | head -n 1'
    done = await runner.run(["sh", "-c", script, "sh", run_dir, _task(job_id), pattern])
    name = done.stdout.strip()
    if done.returncode == _NO_RUN:
        raise _no_such_run(job_id)
    if not name:
        if task:
            await _check_part(runner, run_dir, job_id)
        raise JobNotFound(
            f"Job {job_id} has no log yet.", "It is written from the moment the job starts."
        )
    return f"{run_dir}/logs/{name}"


async def _check_part(runner: Runner, run_dir: str, job_id: str) -> None:
    """JobNotFound for a part that a job does not have; the runs of a sweep are known before."""
    done = await runner.run(["cat", f"{run_dir}/{RUN_FILE}"])
    try:
        parts = json.loads(done.stdout)["parts"] or 1
    except (ValueError, KeyError, TypeError):
        return  # of an older submit
    whole, _, part = job_id.partition("_")
    if part.isdigit() and int(part) > parts:
        has = "one part" if parts == 1 else f"{parts} parts"
        raise JobNotFound(f"Job {whole} has {has}.", f"Leave the number out: {whole}.")


async def read_log(runner: Runner, path: str, start: int) -> tuple[str, int]:
    """What a log holds from byte `start` on, and where to go on reading."""
    script = 'tail -c "+$2" -- "$1" | head -c "$3" | base64'
    done = await runner.run(["sh", "-c", script, "sh", path, str(start + 1), str(CHUNK_BYTES)])
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
