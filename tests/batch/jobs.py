"""Jobs of every kind, for the golden files and for runs outside of Slurm."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.convert.report import Conversion
from jupyter_hpc.batch.job.model import (
    DEFAULT_REQUEST,
    BatchJob,
    Environment,
    Flag,
    Input,
    OwnFolder,
    Staging,
    Step,
)
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.snapshot import run_files

_BASE = BatchJob(
    "my train.ipynb",
    "/home/alice/pro ject/hpc-batch/my train/runs/1",
    "/home/alice/pro ject",
    request=replace(DEFAULT_REQUEST, name="my_train", partition="gpu", account="ml"),
)
_INPUTS = (Input("/data/set.tar", "data", "tar"), Input("/data/one.csv", "one.csv"))

GOLDEN: dict[str, BatchJob] = {
    "single": _BASE,
    "cpu-only": replace(_BASE, request=replace(_BASE.request, gpus=None)),
    "modules-and-conda": replace(
        _BASE,
        check_gpu=True,
        environment=Environment(modules=("2023", "CUDA/12.1"), conda="torch env"),
    ),
    "staged": replace(
        _BASE,
        staging=Staging(_INPUTS),
        environment=Environment(setup=("export SITE=1",), venv="/home/alice/ve nv"),
    ),
    "chain": replace(_BASE, chain=4, staging=Staging(_INPUTS, interval=60)),
    "sweep": replace(
        _BASE,
        sweep=tuple({"lr": n} for n in range(12)),
        at_once=3,
        folder=OwnFolder("/home/alice/pro ject"),
    ),
    "two-nodes": replace(
        _BASE,
        request=replace(_BASE.request, nodes=2, tasks=4, gpus=2),
        staging=Staging(_INPUTS),
        environment=Environment(build_from="/home/alice/requirements.txt", wheels="/wheels"),
        check_gpu=True,
    ),
    "notebook-requeued": replace(_BASE, mode="notebook", requeue=True, parameters={"lr": 0.1}),
    "container": replace(_BASE, environment=Environment(container="/images/torch 2.sif")),
    "told": replace(_BASE, chain=4, notify=True),
    "scripts": replace(
        _BASE,
        notebook="train.py",
        steps=(
            Step("train.py", arguments=("--name", "it's"), flags={"lr": Flag("--lr")}),
            Step("src/predict.py", hears_warning=True),
            Step("clean up.sh", "shell"),
        ),
        parameters={"lr": 0.1},
        requeue=True,
        after=("12", "13_4"),
    ),
    "scripts-swept": replace(
        _BASE,
        notebook="train.py",
        steps=(Step("train.py", flags={"lr": Flag("--lr")}),),
        sweep=({"lr": 1}, {"lr": 2}),
        request=replace(_BASE.request, nodes=2, tasks=4, tasks_per_node=2, gpus=2),
    ),
    "inline": replace(_BASE, parameters={"name": "it's"}, parameters_inline=True),
}

#: How the name of a file ends while it is being copied.
DRAFT = ".jupyter-hpc-draft"

_SRUN = """#!/bin/bash
while [[ "${1:-}" == --* ]]; do shift; done
exec "$@"
"""
_RECORDER = """#!/bin/bash
if [ "$1 $2" = "show job" ]; then
    echo "JobId=7 Requeue=1 Restarts=$(grep -c "^scontrol requeue" "$CALLS") BatchFlag=1"
    exit
fi
echo "$(basename "$0") $*" >> "$CALLS"
name=$(basename "$0")
[ "$name" = scancel ] || name=$1
if grep -qx "$name" "$CALLS.refused" 2> /dev/null; then
    echo "$name: \"Access denied\" by a plugin" >&2
    exit 1
fi
"""


class LocalJob:
    """A batch script run by plain bash, with the few words of Slurm that it uses."""

    def __init__(
        self,
        tmp_path: Path,
        conversion: Conversion,
        *,
        scratch_roots: tuple[str, ...] | None = None,
        interval: int = 1,
        **values: Any,
    ) -> None:
        self.root = tmp_path
        self.work = tmp_path / "work dir"
        self.run = tmp_path / "run"
        self.scratch = tmp_path / "scratch"
        self.calls = tmp_path / "calls"
        for folder in (self.work, self.scratch, tmp_path / "bin", self.run / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("srun", _SRUN), ("scancel", _RECORDER), ("scontrol", _RECORDER)):
            file = tmp_path / "bin" / name
            file.write_text(text, encoding="utf-8")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        staging = values.pop("staging", Staging())
        if staging is not None:
            staging = replace(
                staging, scratch_roots=scratch_roots or (str(self.scratch),), interval=interval
            )
        request = replace(DEFAULT_REQUEST, gpus=values.pop("gpus", None))
        # The limit comes right after the warning here, unless a test says how long before it is.
        values.setdefault("warning", 0)
        self.job = BatchJob(
            conversion.notebook,
            str(self.run),
            str(self.work),
            request=request,
            staging=staging,
            **values,
        )
        for name, data in run_files(b"{}", conversion, self.job, {}).items():
            path = self.run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.process: subprocess.Popen[bytes] | None = None
        #: The code of the last start, for whoever notes it.
        self.ended_with: int | None = None

    def start(self, job_id: int = 7, **environment: str) -> None:
        script = self.run / "job.sbatch"
        script.write_text(script_text(self.job), encoding="utf-8")
        log = (self.run / "logs" / f"{job_id}.out").open("ab")
        self.process = subprocess.Popen(
            ["bash", str(script)],
            cwd=self.work,
            env={
                "PATH": f"{self.root}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
                "HOME": str(self.root),
                "CALLS": str(self.calls),
                "SLURM_JOB_ID": str(job_id),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()

    def refuse(self, commands: Sequence[str]) -> None:
        """Let scancel, or these of scontrol's commands, fail from now on."""
        lines = "".join(f"{name}\n" for name in commands)
        Path(f"{self.calls}.refused").write_text(lines, encoding="utf-8")

    def wait_for(self, words: str, count: int = 1, timeout: float = 60) -> None:
        """Wait until the logs of all starts hold `words` so many times."""
        deadline = time.monotonic() + timeout
        while self.log().count(words) < count:
            assert time.monotonic() < deadline, f"no {words!r} in the log:\n{self.log()}"
            time.sleep(0.02)

    def signal_all(self, number: signal.Signals) -> None:
        """What Slurm does to a job that must end: every process gets the signal."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self, timeout: float = 100) -> int:
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal_all(signal.SIGKILL)
            raise AssertionError(f"the job did not end:\n{self.log()}") from None

    def end(self, kill_wait: float = 60) -> int:
        """TERM, and KILL some time later, as at a time limit."""
        self.signal_all(signal.SIGTERM)
        assert self.process is not None
        deadline = time.monotonic() + kill_wait
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self.signal_all(signal.SIGKILL)
        return self.process.wait(30)

    def run_to_end(self, **environment: str) -> int:
        self.start(7, **environment)
        return self.wait()

    def log(self) -> str:
        logs = sorted((self.run / "logs").glob("*.out"))
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in logs)

    def files(self, task: str = "") -> dict[str, bytes]:
        """What came back from scratch; a copy that is under way is not back."""
        folder = self.run / "output" / task / "files"
        return {
            str(file.relative_to(folder)): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file() and not file.name.endswith(DRAFT)
        }

    def state(self, task: str = "") -> dict[str, Any]:
        content = (self.run / "output" / task / "state.json").read_text(encoding="utf-8")
        return dict(json.loads(content))

    def called(self) -> list[str]:
        return self.calls.read_text(encoding="utf-8").splitlines() if self.calls.exists() else []
