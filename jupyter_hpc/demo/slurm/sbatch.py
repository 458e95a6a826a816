"""sbatch: submit a script, with its #SBATCH lines, as a job or an array."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from jupyter_hpc.demo.slurm.admission import Refused
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.environment import exported
from jupyter_hpc.demo.slurm.jobs import Job, Request
from jupyter_hpc.demo.slurm.options import BadCommand
from jupyter_hpc.demo.slurm.request import build_request, read_options, script_options
from jupyter_hpc.demo.slurm.units import read_numbers, write_hostlist, write_moment
from jupyter_hpc.demo.slurm.version import version_line

FAILED = "Batch job submission failed"
#: The most tasks that an array may have, and the number that its tasks stay below.
MAX_ARRAY = 1001


async def sbatch(call: Call, controller: Controller) -> int:
    """Answer one sbatch."""
    options, words = read_options("sbatch", call.arguments, call.environment)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    script, name, path = await _script(call, options, words)
    given = script_options(script)
    request = build_request(
        "sbatch",
        {**given, **options},
        controller.inventory,
        work_dir=call.work_dir,
        now=time.time(),
        name=name,
    )
    arguments = words[1:] if path else []
    command = " ".join([path, *arguments]) if path else ""
    request = replace(request, command=command, arguments=tuple(arguments))
    merged = {**given, **options}
    try:
        if "test-only" in merged:
            return _test(call, controller, request)
        tasks, step, limit = _array(merged.get("array"))
        origin = Job(
            0,
            request,
            script=script.encode("utf-8", "surrogateescape"),
            environment=exported(call.environment, merged.get("export")),
            host=call.host,
            client_pid=call.pid,
            submit_dir=call.work_dir,
        )
        job = controller.submit(request, origin, tasks, step, limit)
    except Refused as refusal:
        if refusal.detail and not ("test-only" in merged and "Memory" in refusal.detail):
            call.say(f"error: {refusal.detail}")
        if "test-only" in merged:
            call.err(f"allocation failure: {refusal.reason}")
        else:
            call.say(f"error: {FAILED}: {refusal.reason}")
        return 1
    number = job.id
    call.out(f"{number}\n" if "parsable" in merged else f"Submitted batch job {number}\n")
    if "wait" not in merged:
        return 0
    return await _wait(call, controller, number)


async def _script(call: Call, options: Mapping[str, str], words: list[str]) -> tuple[str, str, str]:
    """The script's text, the job's default name, and its path if it has one."""
    if "wrap" in options:
        if words:
            raise BadCommand("sbatch: error: Script arguments not permitted with --wrap option")
        text = f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{options['wrap']}\n"
        return text, "wrap", ""
    if words:
        path = os.path.join(call.work_dir, words[0])
        name = os.path.basename(path)
        try:
            data = await asyncio.to_thread(Path(path).read_bytes)
        except OSError:
            raise BadCommand(f"sbatch: error: Unable to open file {words[0]}") from None
    else:
        path, name = "", "sbatch"
        data = await call.whole_stdin()
    text = data.decode("utf-8", "surrogateescape")
    if not text.strip():
        raise BadCommand("sbatch: error: Batch script is empty!")
    if not text.startswith("#!"):
        raise BadCommand(
            "sbatch: error: This does not look like a batch script.  The first",
            "sbatch: error: line must start with #! followed by the path to an interpreter.",
            "sbatch: error: For instance: #!/bin/sh",
        )
    if "\0" in text:
        raise BadCommand("sbatch: error: The Slurm controller does not allow scripts that")
    if "\r\n" in text:
        raise BadCommand(
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)",
            "sbatch: error: instead of expected UNIX line breaks (\\n).",
        )
    return text, name, path


def _array(text: str | None) -> tuple[list[int], int, int | None]:
    """Tasks, their distance, and how many may run at once."""
    if text is None:
        return [], 1, None
    match = re.fullmatch(r"([\d,:-]+)(?:%(\d+))?", text)
    tasks = read_numbers(match[1]) if match else None
    if not match or not tasks or tasks[-1] >= MAX_ARRAY:
        raise Refused("Invalid job array specification")
    step = re.fullmatch(r"\d+-\d+:(\d+)", match[1])
    return tasks, int(step[1]) if step else 1, int(match[2] or 0) or None


def _test(call: Call, controller: Controller, request: Request) -> int:
    number, start, shares = controller.estimate(request)
    when = write_moment(start, call.environment.get("SLURM_TIME_FORMAT"))
    nodes = write_hostlist(tuple(share.node for share in shares))
    cpus = sum(share.cpus for share in shares)
    call.say(
        f"Job {number} to start at {when} using {cpus} processors on nodes {nodes} "
        f"in partition {request.partition}"
    )
    return 0


async def _wait(call: Call, controller: Controller, number: int) -> int:
    """Wait for all of it; the highest exit code counts, 1 for what did not exit by itself."""
    worst = 0
    for job in controller.jobs.find(str(number)):
        while not job.done:
            changed = asyncio.ensure_future(job.changed.wait())
            gone = asyncio.ensure_future(call.gone.wait())
            signalled = asyncio.ensure_future(call.signals.get())
            await asyncio.wait({changed, gone, signalled}, return_when=asyncio.FIRST_COMPLETED)
            leaves = gone.done() or signalled.done()
            for waiting in (changed, gone, signalled):
                waiting.cancel()
            if leaves:
                return 1
        code, killed = job.exit
        good = job.state == "COMPLETED"
        worst = max(worst, 128 + killed if killed else code or (0 if good else 1))
    return worst
