"""A trial in this session: a process of its own in a folder of its own, and gone with this one."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.job.environment import container_words, environment_text
from jupyter_hpc.batch.job.steps import SCRIPTS
from jupyter_hpc.batch.runtime import SIDECAR_FILE
from jupyter_hpc.batch.submit.snapshot import as_json
from jupyter_hpc.batch.trial.measured import Measured, TrialFailed, read_result
from jupyter_hpc.batch.trial.plan import MAX_SECONDS, PLAN, PROGRAM, Trial
from jupyter_hpc.cgroup import read_group
from jupyter_hpc.errors import UsageError
from jupyter_hpc.gpu.simulated import SIMULATED_VARIABLE
from jupyter_hpc.runner import Background
from jupyter_hpc.slurm import jobtext
from jupyter_hpc.slurm.job_environment import JobEnvironment
from jupyter_hpc.text import duration, printable

_BEGIN = "begin.sh"
_LOG = "log"
_PREFIX = "jupyter-hpc-trial-"
#: What the environment of the job may take to be set up.
_SETUP_SECONDS = 300.0
#: So much of the memory stays for Jupyter and its kernels: of the job's, and at least.
_RESERVE = 0.05
_LEAST_RESERVE_BYTES = 50_000_000
#: What the trial takes to end all of its processes, and to remove its folder.
_END_SECONDS = 8.0


@dataclass(frozen=True)
class Progress:
    """How far a trial is: which of its runs, and what that has taken so far."""

    run: int = 0
    runs: int = 0
    epochs: int = 0
    #: The newest number that the notebook itself has told of; None if it tells of none.
    epoch: int | None = None
    seconds: float = 0.0
    memory: int = 0
    gpu_memory: int = 0
    #: What it printed last.
    line: str = ""


def read_progress(told: Mapping[str, Any]) -> Progress:
    """What shipped/trial.py has written of it so far; it may have written nothing yet."""
    if not told:
        return Progress()
    return Progress(
        run=told["run"],
        runs=told["runs"],
        epochs=told["epochs"],
        epoch=told["epoch"],
        seconds=told["elapsed"],
        memory=told["bytes"],
        gpu_memory=told["gpu_bytes"],
        line=printable(told["line"], 200),
    )


def check_session(trial: Trial, environ: Mapping[str, str]) -> None:
    """UsageError where a trial in this session would measure something else than the job."""
    named = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", SIMULATED_VARIABLE)
    if trial.gpu_packages and not any(environ.get(name) for name in named):
        raise UsageError(
            f"The job would have a GPU for {trial.gpu_packages[0]} and this session has none, so "
            "that a trial here would measure something else.",
            "Open a session with a GPU, or ask for none (--gpus 0) to measure without one.",
        )


def memory_left(job: JobEnvironment) -> int | None:
    """Bytes that a trial may hold here, so that Jupyter and its kernels keep theirs."""
    each = job.memory_mb // max(1, len(job.nodes)) * 2**20 if job.memory_mb else None
    group = read_group(each)
    if group is None:
        return each
    return int(group.limit - group.used - max(_RESERVE * group.limit, _LEAST_RESERVE_BYTES))


class LocalTrial:
    """One trial that runs here; whoever starts it ends it."""

    def __init__(self, trial: Trial, folder: Path, program: Background) -> None:
        self._trial, self._folder, self._program = trial, folder, program
        self._began = time.monotonic()

    @classmethod
    def start(cls, trial: Trial, memory: int | None, lock: Path | None) -> LocalTrial:
        """Write its files and start it; it may hold so many bytes.

        Of several trials with one `lock` only one runs. UsageError where there is no room.
        """
        _tidy()
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        except OSError as error:
            raise _no_room(error) from error
        try:
            _write(trial, folder, memory, lock)
            shell = ["bash", *(["-l"] if trial.job.environment.login_shell else [])]
            return cls(trial, folder, Background([*shell, str(folder / _BEGIN)], folder / _LOG))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise _no_room(error) from error
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def running(self) -> bool:
        """Whether it goes on; one whose environment is never ready is ended."""
        seconds = self._trial.wanted.seconds + _SETUP_SECONDS
        return self._program.running and time.monotonic() - self._began < seconds

    def progress(self) -> Progress:
        """How far it is now."""
        told = _table(self._folder / "output" / "progress.json")
        return replace(read_progress(told), seconds=time.monotonic() - self._began)

    def result(self) -> Measured:
        """What came of it, once it is over; TrialFailed says why there is nothing."""
        log = ""
        with contextlib.suppress(OSError):
            log = (self._folder / _LOG).read_text(encoding="utf-8", errors="replace")
        result = _table(self._folder / "output" / "trial.json")
        if not result and self._program.running:
            raise TrialFailed(
                f"The environment of the job was not ready after {duration(_SETUP_SECONDS)}.",
                "Its lines may wait for something; try them in a terminal.",
            )
        return read_result(result, self._trial.wanted.seconds, log)

    def end(self) -> None:
        """End it with all that it has started, and remove its folder. Takes seconds at most."""
        self._program.hang_up()
        self._program.wait(_END_SECONDS)
        if self._program.running:
            self._program.kill()
            self._program.wait(_END_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


def _tidy() -> None:
    """Remove folders of trials that were killed together with all that would have done so."""
    place = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        for folder in place.glob(f"{_PREFIX}*"):
            found = folder.lstat()
            is_old = time.time() - found.st_mtime > MAX_SECONDS + 2 * _SETUP_SECONDS
            if is_old and found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode):
                shutil.rmtree(folder, ignore_errors=True)


def _no_room(error: OSError) -> UsageError:
    return UsageError(
        f"The folder of the trial could not be made in {tempfile.gettempdir()}: {error.strerror}.",
        "TMPDIR names another place for it.",
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(trial: Trial, folder: Path, memory: int | None, lock: Path | None) -> None:
    plan = json.loads(trial.files[PLAN])
    plan |= {"watched": True, "memory": memory, "lock": str(lock) if lock else None}
    files = {**trial.files, PLAN: as_json(plan).encode(), _BEGIN: _begin(trial, folder).encode()}
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "output").mkdir(exist_ok=True)


def _begin(trial: Trial, folder: Path) -> str:
    """The lines before the trial's program: the environment of the job, as its script has it."""
    job = trial.job
    environment = job.environment
    if environment.build_from:
        moved = environment.build_from.replace(job.run_dir, str(folder))
        job = replace(job, environment=replace(environment, build_from=moved))
    run = shlex.quote(str(folder))
    return f"""\
# The environment of the job, then the trial; what this prints is the trial's log.
exec 1>&2
set -u
{jobtext.IDENTITY}
run={run} code=0
work={shlex.quote(job.work_dir)}
cwd=$work
sidecar="$run/{SIDECAR_FILE}"
say() {{ printf '[jupyter-hpc] %s\\n' "$*"; }}
{environment_text(job)}
export PYTHONUNBUFFERED=1 WANDB_MODE="${{WANDB_MODE:-offline}}"
{jobtext.ALONE}
exec {container_words(job)}python3 "$run/{SCRIPTS}/{PROGRAM}" "$run/{PLAN}"
"""


def session_lock(home: Path, job_id: str) -> Path:
    """What all trials in one job hold while they run."""
    state = os.environ.get("XDG_STATE_HOME") or str(home / ".local" / "state")
    return Path(state) / "jupyter-hpc" / f"trial-{job_id}.lock"
