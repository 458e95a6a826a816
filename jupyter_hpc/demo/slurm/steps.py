"""The processes of steps and batch scripts: started, signalled, waited for, ended.

Signals reach the processes that the step started directly, as with Slurm's cgroup
tracking; SIGKILL, and the end of a step, reach everything that they left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jupyter_hpc.demo import processes
from jupyter_hpc.demo.layout import Layout
from jupyter_hpc.demo.slurm.environment import batch_variables, step_variables
from jupyter_hpc.demo.slurm.inventory import Inventory
from jupyter_hpc.demo.slurm.jobs import COMPLETED, FAILED, RUNNING, Job, Step
from jupyter_hpc.demo.slurm.patterns import expand
from jupyter_hpc.demo.slurm.units import write_moment
from jupyter_hpc.demo.spawner import Spawned, Spawner

#: What a job finds on its node, whatever the environment that it was submitted with says.
NODE_VARIABLES = (
    "TMPDIR",
    "JUPYTER_HPC_NODE_TMP",
    "JUPYTER_HPC_DEMO_HOST",
    "JUPYTER_HPC_SIMULATED_GPUS",
)


@dataclass(frozen=True)
class TaskFiles:
    """Standard input, output and error of one task; None is /dev/null."""

    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None


@dataclass(frozen=True)
class Launcher:
    """Starts processes as parts of jobs."""

    layout: Layout
    spawner: Spawner
    inventory: Inventory
    marker: str
    host_environment: Callable[[str], dict[str, str]]

    def step_marker(self, job: Job, step: str = "") -> str:
        return f"{self.marker}:{job.id}.{step}"

    def _environment(
        self, base: Mapping[str, str], node: str, added: Mapping[str, str], marker: str
    ) -> dict[str, str]:
        """The submitter's environment on `node`: its own names and temporary folder win."""
        host = self.host_environment(node)
        local: dict[str, str] = {name: host[name] for name in NODE_VARIABLES if name in host}
        kept = {
            name: value
            for name, value in base.items()
            if name not in ("JUPYTER_HPC_SIMULATED_GPUS", processes.STEP_VARIABLE)
        }
        if "PATH" not in kept:
            kept["PATH"] = host["PATH"]
        return {
            **kept,
            **local,
            processes.CLUSTER_VARIABLE: self.marker,
            **added,
            processes.STEP_VARIABLE: marker,
        }

    async def start_batch(self, job: Job) -> Step:
        """Start the job's script on its first node; OSError if its files cannot be opened."""
        node = job.shares[0].node
        step = Step(job, "batch", "batch", 1, job.shares[0].cpus, (node,), overlap=True)
        step.start = time.time()
        job.steps.append(step)
        os.stat(job.request.work_dir)
        folder = self.layout.run / f"job{job.id:05}"
        folder.mkdir(mode=0o700, exist_ok=True)
        script = folder / "slurm_script"
        script.write_bytes(job.script or b"")
        script.chmod(0o700)
        environment = self._environment(
            job.environment,
            node,
            batch_variables(job, self.inventory),
            self.step_marker(job, "batch"),
        )
        with contextlib.ExitStack() as opened:
            out = _open_output(output_path(job, "stdout"), job.request.append)
            opened.callback(os.close, out)
            error = out
            if job.request.stderr:
                error = _open_output(output_path(job, "stderr"), job.request.append)
                opened.callback(os.close, error)
            source = os.open(expand(job.request.stdin, job), os.O_RDONLY)
            opened.callback(os.close, source)
            process = await self.spawner.spawn(
                [str(script), *job.request.arguments],
                env=environment,
                cwd=_existing(job.request.work_dir),
                stdin=source,
                stdout=out,
                stderr=error,
            )
        step.processes.append(process)
        _end_if_late(step)
        return step

    async def start_task(
        self,
        step: Step,
        task: int,
        argv: Sequence[str],
        base: Mapping[str, str],
        work_dir: str,
        files: TaskFiles,
        name: str,
    ) -> Spawned:
        """Start one task of a step; SpawnFailed if its program cannot be executed."""
        count = len(step.nodes)
        counts = [step.tasks // count + (i < step.tasks % count) for i in range(count)]
        index, local = 0, task
        while local >= counts[index]:
            local -= counts[index]
            index += 1
        node = step.nodes[index]
        share = next(share for share in step.job.shares if share.node == node)
        share = replace(share, gpus=share.gpus[: step.gpus])
        added = step_variables(step, task, local, share, index, self.inventory, name)
        environment = self._environment(base, node, added, self.step_marker(step.job, step.id))
        program = find_program(argv[0], base, work_dir)
        process = await self.spawner.spawn(
            argv,
            executable=program,
            env=environment,
            cwd=_existing(work_dir),
            stdin=files.stdin,
            stdout=files.stdout,
            stderr=files.stderr,
        )
        step.processes.append(process)
        _end_if_late(step)
        return process

    async def wait(self, step: Step) -> list[int]:
        """Wait for the direct processes, then end what they left; their exit codes."""
        ended = [await process.ended for process in step.processes]
        step.cpu_seconds = sum(end.cpu_seconds for end in ended)
        step.memory_kib = max((end.memory_kib for end in ended), default=0)
        await asyncio.to_thread(processes.kill_step, self.step_marker(step.job, step.id))
        return [end.code for end in ended]

    def close(self, step: Step, codes: Sequence[int]) -> None:
        """Record how the step ended; the highest code counts."""
        worst = max((code for code in codes if code > 0), default=0)
        signals = [-code for code in codes if code < 0]
        step.exit = (worst, 0) if worst or not signals else (0, max(signals))
        if step.exit == (0, 0):
            step.state = COMPLETED
        else:
            step.state = step.ends_as if step.exit[1] else FAILED
        step.end = time.time()

    def announce_end(self, step: Step, why: str) -> None:
        """Write what slurmstepd writes before it ends a step."""
        node = step.nodes[0]
        what = f"JOB {step.job.id}" if step.id == "batch" else f"STEP {step.full_id}"
        when = write_moment(time.time(), None)
        line = f"slurmstepd-{node}: error: *** {what} ON {node} CANCELLED AT {when}{why} ***"
        if step.id == "batch":
            self._write_to_log(step, line)
        for listener in step.listeners:
            listener(line)

    def write_error(self, step: Step, text: str) -> None:
        """Write a message of slurmstepd to the log of a batch job."""
        self._write_to_log(step, f"slurmstepd-{step.nodes[0]}: error: {text}")

    @staticmethod
    def _write_to_log(step: Step, line: str) -> None:
        with contextlib.suppress(OSError):
            fd = os.open(output_path(step.job, "stderr"), os.O_WRONLY | os.O_APPEND)
            os.write(fd, f"{line}\n".encode())
            os.close(fd)

    async def signal_job(self, job: Job, number: int) -> None:
        """Signal every process of the job."""
        await asyncio.to_thread(processes.signal_step, self.step_marker(job), number)

    async def kill_job(self, job: Job) -> None:
        """Kill everything that ever belonged to the job."""
        await asyncio.to_thread(processes.kill_step, self.step_marker(job))


def find_program(word: str, environment: Mapping[str, str], work_dir: str) -> str:
    """The file that srun runs for `word`: below the working directory, or on its own PATH."""
    if os.sep in word:
        return os.path.join(work_dir, word)
    return shutil.which(word, path=environment.get("PATH", "")) or word


def send_to_step(step: Step, number: int) -> None:
    """Signal the processes that the step started directly."""
    for process in step.processes:
        if not process.ended.done():
            with contextlib.suppress(OSError):
                if number == signal.SIGTERM:
                    os.kill(process.pid, signal.SIGCONT)
                os.kill(process.pid, number)


def _end_if_late(step: Step) -> None:
    """Kill what was still on its way when its job was ended: nobody has seen it then."""
    if step.job.state != RUNNING:
        send_to_step(step, signal.SIGKILL)


def output_path(job: Job, which: str) -> str:
    """The file of a batch job's stdout or stderr, patterns expanded."""
    request = job.request
    default = "slurm-%A_%a.out" if job.array else "slurm-%j.out"
    name = request.stdout or default
    if which == "stderr" and request.stderr:
        name = request.stderr
    return os.path.join(request.work_dir, expand(name, job))


def _open_output(path: str, append: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    return os.open(path, flags | os.O_APPEND, 0o644)


def _existing(folder: str) -> str:
    """slurmstepd goes to /tmp where the working directory does not exist."""
    return folder if os.path.isdir(folder) else "/tmp"  # noqa: S108 - as Slurm does
