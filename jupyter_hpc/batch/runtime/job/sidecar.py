"""What runs beside the program of a job: records GPUs and brings results back.

    python jupyter_hpc_job.py stage-in PLAN OUTPUT [SCRATCH]  prints which folder it is, the
                                                              scratch folder and that of the program
    python jupyter_hpc_job.py check-staged SCRATCH OUTPUT     whether that folder is still the same
    python jupyter_hpc_job.py isolate PLAN OUTPUT             prints the folder of the program
    python jupyter_hpc_job.py tidy [--keep] OUTPUT            leaves only results in it; --keep:
                                                              but compares, for a part follows
    python jupyter_hpc_job.py check-folder FOLDER             whether others could swap it
    python jupyter_hpc_job.py run [--plan PLAN --scratch DIR --results DIR]
                                   [--gpus FILE] [--environment OUTPUT] [--interval SECONDS]
    python jupyter_hpc_job.py check-gpu
    python jupyter_hpc_job.py part begin|end|held [--number N] [--shared] OUTPUT [CHECKPOINTS
                                   [FOLDER …]]  counts the parts of a run that goes on
    python jupyter_hpc_job.py table RUN                       writes the table of a sweep
    python jupyter_hpc_job.py notify RUN CODE JOB RUNS        tells the user of the end

`run` goes on until USR2, which means: the program has ended, copy all and stop. USR1 asks
for a copy at once. TERM means that the job is being ended: it copies again and again
until it is told to stop or is killed, and never dies of TERM itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.copy_back import CopyBack
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.gpu_record import GpuRecorder, check_gpu
from jupyter_hpc.batch.runtime.job.installed import InstalledNote
from jupyter_hpc.batch.runtime.job.marks import INCOMPLETE
from jupyter_hpc.batch.runtime.job.notify import tell_end
from jupyter_hpc.batch.runtime.job.own_folder import (
    make_own_folder,
    say_changed,
    tidy_own_folder,
)
from jupyter_hpc.batch.runtime.job.progress import begin_part, end_part, held, look
from jupyter_hpc.batch.runtime.job.run_table import write_run_table
from jupyter_hpc.batch.runtime.job.scratch import OWN_MARK, NoRoom, identity, why_unsafe
from jupyter_hpc.batch.runtime.job.staging import (
    Plan,
    all_is_back,
    check_staged,
    results_folder,
    stage_in,
)
from jupyter_hpc.batch.runtime.log import log
from jupyter_hpc.batch.runtime.parts.left_behind import fetch_left, say_left

#: Between two samples of the GPUs.
GPU_INTERVAL_SECONDS = 10.0


class Sidecar:
    """Waits for signals and clocks; all work happens between two waits."""

    def __init__(self, copy: CopyBack | None, gpus: GpuRecorder | None, interval: float) -> None:
        self.copy, self.gpus, self.interval = copy, gpus, interval
        self.asked: set[str] = set()
        self._answer_signals(self._signalled)

    def close(self) -> None:
        """Hear no more signals: Python gives up its handlers some time before it ends."""
        self._answer_signals(signal.SIG_IGN)

    def _answer_signals(self, handler: Any) -> None:
        for name in ("USR1", "USR2", "TERM"):
            signal.signal(getattr(signal, "SIG" + name), handler)

    def _signalled(self, number: int, _: Any) -> None:
        self.asked.add(signal.Signals(number).name[3:])

    def run(self) -> int:
        """Keep going until told to stop; 0 if every file is back, else INCOMPLETE."""
        next_copy = time.monotonic() + self.interval
        next_sample = time.monotonic()
        while "USR2" not in self.asked:
            now = time.monotonic()
            hurry = "TERM" in self.asked
            if self.gpus is not None and now >= next_sample:
                self.gpus.sample()
                next_sample = now + GPU_INTERVAL_SECONDS
            if self.copy is not None and (now >= next_copy or "USR1" in self.asked or hurry):
                self.asked.discard("USR1")
                # Once the job is being ended, a file that is still open is better than none.
                self.copy.run(final=hurry)
                next_copy = time.monotonic() + self.interval
            self._wait(next_sample, next_copy, hurry)
        return 0 if self.copy is None or self.copy.run(final=True, over=True) else INCOMPLETE

    def _wait(self, next_sample: float, next_copy: float, hurry: bool) -> None:
        ends = [time.monotonic() + 1.0] if hurry else [time.monotonic() + 3600.0]
        if self.gpus is not None and self.gpus.source is not None:
            ends.append(next_sample)
        if self.copy is not None:
            ends.append(next_copy)
        end = min(ends)
        while time.monotonic() < end and not self.asked - ({"TERM"} if hurry else set()):
            # A signal interrupts the sleep only by its handler; short sleeps notice it.
            time.sleep(min(0.5, max(0.0, end - time.monotonic())))


def main(arguments: list[str]) -> int:
    """The commands of this file."""
    parser = argparse.ArgumentParser(prog="jupyter_hpc_job.py")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("check-gpu")
    staging = commands.add_parser("stage-in")
    staging.add_argument("plan")
    staging.add_argument("output")
    staging.add_argument("scratch", nargs="?", default="")
    isolating = commands.add_parser("isolate")
    isolating.add_argument("plan")
    isolating.add_argument("output")
    tidying = commands.add_parser("tidy")
    tidying.add_argument("--keep", action="store_true")
    tidying.add_argument("output", type=Path)
    commands.add_parser("check-folder").add_argument("folder")
    part = commands.add_parser("part")
    part.add_argument("moment", choices=["begin", "end", "held"])
    part.add_argument("--number", type=int, default=1)
    part.add_argument("--shared", action="store_true")
    part.add_argument("folders", nargs="+", type=Path)
    table = commands.add_parser("table")
    table.add_argument("run")
    telling = commands.add_parser("notify")
    telling.add_argument("run")
    telling.add_argument("code", type=int)
    telling.add_argument("job")
    telling.add_argument("runs", type=int)
    for name in ("clean", "check-staged"):
        of_scratch = commands.add_parser(name)
        of_scratch.add_argument("scratch", type=Path)
        of_scratch.add_argument("output", type=Path)
    beside = commands.add_parser("run")
    for name in ("--plan", "--scratch", "--results", "--gpus", "--environment"):
        beside.add_argument(name)
    beside.add_argument("--interval", type=float, default=300.0)
    beside.add_argument("--once", action="store_true")
    options = parser.parse_args(arguments)
    if options.command == "check-gpu":
        return check_gpu()
    if options.command == "stage-in":
        return _stage(options)
    if options.command == "isolate":
        return _isolate(options)
    if options.command == "tidy":
        tidy_own_folder(options.output, options.keep)
        return 0
    if options.command == "check-folder":
        return _check(options.folder)
    if options.command == "part":
        return _part(options)
    if options.command == "table":
        write_run_table(Path(options.run))
        return 0
    if options.command == "notify":
        tell_end(Path(options.run), options.code, options.job, options.runs)
        return 0
    if options.command == "clean":
        all_is_back(options.scratch, options.output)
        return 0
    if options.command == "check-staged":
        return _check_staged(options.scratch, options.output)
    if options.command == "run":
        return _run(options)
    parser.print_help()
    return 2


def _stage(options: Any) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        plan, output = Plan(options.plan), Path(options.output)
        fetch_left(plan, output)  # first, since it makes room
        staged = stage_in(plan, output, options.scratch)
    except (NoRoom, OSError, ValueError) as error:
        log(f"the inputs were not staged: {error}")
        return 1
    print(staged.identity, staged.scratch, staged.work, sep="\n")
    return 0


def _isolate(options: Any) -> int:
    try:
        with open(options.plan, encoding="utf-8") as file:
            plan = FolderPlan(json.load(file))
        print(make_own_folder(plan, Path(options.output)))
    except (OSError, ValueError) as error:
        log(f"the folder of this run could not be made: {error}")
        return 1
    return 0


def _part(options: Any) -> int:
    output, *folders = options.folders
    if options.moment == "held":
        held(output)
        return 0
    found = look(folders[0], folders[1:], shared=options.shared)
    if options.moment == "begin":
        print(*begin_part(output, found, options.number))
    else:
        print(end_part(output, found, options.number))
    return 0


def _check(folder: str) -> int:
    why = why_unsafe(folder)
    if why:
        log(f"{platform.node()}:{folder} cannot be used: {why}")
    return 1 if why else 0


def _check_staged(scratch: Path, output: Path) -> int:
    try:
        check_staged(scratch, output)
    except (NoRoom, OSError) as error:
        log(f"nothing runs: {error}")
        return 1
    return 0


def _run(options: Any) -> int:
    # On other nodes than the first, files of the same name must not meet.
    own = "-" + platform.node().split(".")[0] if os.environ.get("SLURM_NODEID", "0") != "0" else ""
    copy = None
    if options.plan:
        if os.path.lexists(options.scratch):
            try:
                identity(Path(options.scratch))
            except NoRoom as error:
                log(f"nothing is copied from there: {error}")
                return INCOMPLETE
        results = results_folder(Path(options.results))
        copy = CopyBack(Path(options.scratch), results, Plan(options.plan))
        if options.once:  # another one before this was killed
            copy.take_as_done([results])
    gpus = None
    if options.gpus:
        base, suffix = os.path.splitext(options.gpus)
        gpus = GpuRecorder(base + own + suffix)
    sidecar = Sidecar(copy, gpus, options.interval)
    note = None
    if options.environment and not own and not options.once:
        note = InstalledNote(Path(options.environment))
    if options.once:
        sidecar.asked.add("USR2")
    code = sidecar.run()
    if copy is not None:
        say_changed(copy.scratch, Path(options.results), OWN_MARK)
        if code == 0:
            all_is_back(copy.scratch, Path(options.results))
        else:
            log(f"the scratch folder stays: {platform.node()}:{copy.scratch}")
        if not own:
            say_left(Path(options.results), copy.scratch)
    if note is not None:
        note.close()
    sidecar.close()
    return code


if __name__ == "__main__" and os.path.basename(__file__) == "jupyter_hpc_job.py":
    sys.exit(main(sys.argv[1:]))
