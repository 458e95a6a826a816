"""`jupyter-hpc submit`: a notebook into the queue, from the cluster or from the laptop."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from jupyter_hpc.batch.job.model import Environment
from jupyter_hpc.batch.job.sweep import parse_setting, parse_sweep
from jupyter_hpc.batch.preflight.findings import counted, has_errors
from jupyter_hpc.batch.runs.endings import ending_of, left_by, unnoted_end
from jupyter_hpc.batch.submit import submit as batch
from jupyter_hpc.batch.submit.choices import Choices, profile_environment, submit_options
from jupyter_hpc.batch.submit.missing import missing_files
from jupyter_hpc.batch.submit.results import exit_code
from jupyter_hpc.batch.submit.scripts import is_script, prepare_scripts, read_scripts
from jupyter_hpc.cli.hosts import Host, open_host
from jupyter_hpc.cli.job_upload import sending
from jupyter_hpc.cli.proposing import note_of, show_proposal
from jupyter_hpc.cli.resources import CpuCount
from jupyter_hpc.cli.trying import tried
from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.rules import without_guesses
from jupyter_hpc.errors import ConversionRefused, HpcError, PreflightFailed, UsageError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.slurm.units import parse_walltime
from jupyter_hpc.text import printable

#: Seconds between two looks at a job that is waited for.
_WAIT_POLL_SECONDS = 20.0
#: Accounting knows of an end some seconds later than the queue; so long it is waited for.
_RECORD_SECONDS = 8
#: Seconds for which the cluster may give no answer while a job is waited for.
_MAX_SILENCE_SECONDS = 1800.0


@click.command()
@click.argument("programs", nargs=-1, required=True, metavar="NOTEBOOK | SCRIPT…")
@click.option("--on", metavar="NAME", help="The cluster; without it, the one we are on.")
@click.option("--mode", type=click.Choice(["script", "notebook"]), default="script")
@click.option("--skip-invalid", is_flag=True, help="Leave out cells that are not Python.")
@click.option("--set", "settings", multiple=True, metavar="K=V", help="Set a parameter.")
@click.option("--sweep", multiple=True, metavar="K=A,B,C", help="One run for each value.")
@click.option("--at-once", type=click.IntRange(1), metavar="N", help="Runs of a sweep at a time.")
@click.option("--chain", metavar="N|auto", help="N parts, each going on; auto: see --unit.")
@click.option("--unit", metavar="T", help="The time of a part; a trial run tells how many.")
@click.option("--isolate", is_flag=True, help="Work in a new folder, as the runs of a sweep do.")
@click.option("--after", multiple=True, metavar="JOBID", help="Start once that job ended well.")
@click.option("--until", type=click.Choice(["done", "exit", "all"]), help="What ends a chain.")
@click.option("--requeue", is_flag=True, help="Go on after each time limit or node failure.")
@click.option("--stage-in", multiple=True, metavar="PATH", help="Copy to the node's disk first.")
@click.option("--stage-out", multiple=True, metavar="PATH", help="Copy back; default: all new.")
@click.option("--preset", metavar="P", help="A preset of the profile.")
@click.option("--time", "time_", metavar="T")
@click.option("--partition", metavar="P")
@click.option("--account", metavar="A")
@click.option("--qos", metavar="Q")
@click.option("--nodes", type=click.IntRange(1), metavar="N")
@click.option("--tasks", type=click.IntRange(1), metavar="N", help="Processes in all.")
@click.option("--tasks-per-node", type=click.IntRange(1), metavar="N", help="Default: one per GPU.")
@click.option("--cpus", type=CpuCount(), metavar="N", help="CPUs per task, or: cluster.")
@click.option("--mem", metavar="M", help="Memory per node: 32G, or: cluster.")
@click.option("--gpus", type=click.IntRange(0), metavar="N")
@click.option("--gpu-type", metavar="TYPE")
@click.option("--constraint", metavar="C")
@click.option("--option", "extra", multiple=True, metavar="O", help="Any option of sbatch.")
@click.option("--module", "modules", multiple=True, metavar="M", help="Load a module first.")
@click.option("--conda", metavar="ENV", help="The job's Python: a conda environment, …")
@click.option("--venv", metavar="DIR", help="… a virtual environment, …")
@click.option("--build", metavar="FILE", help="… one built in the job from requirements, …")
@click.option("--container", metavar="IMAGE", help="… or an Apptainer image.")
@click.option("--dry-run", is_flag=True, help="Show the job and when it could start; no more.")
@click.option("--trial", metavar="N", help='Try "2 epochs" first: fills time and memory.')
@click.option("--propose", is_flag=True, help="Show what the notebook lacks to go on; no more.")
@click.option("--apply", is_flag=True, help="Write that into the notebook, after a backup.")
@click.option("--wait", is_flag=True, help="Wait for its end and exit with its code.")
@click.option("--notify", is_flag=True, help="Tell me when it ends, as my settings say.")
@click.option("--force", is_flag=True, help="Submit in spite of errors that are found before.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
def submit(
    programs: tuple[str, ...],
    on: str | None,
    dry_run: bool,
    propose: bool,
    apply: bool,
    wait: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Run a notebook, or scripts one after the other, as a batch job; prints the job id alone.

    A script is a .py or .sh file, in quotes with its arguments: "train.py --epochs 3".

    Each submit freezes the notebook, the modules beside it and its parameters in a run
    folder of its own. Exit 3: it cannot be converted; 4: Slurm refuses the job; 5: it
    would fail, and says why; so does --dry-run.
    """
    if propose or apply:
        return show_proposal(programs, write=apply, as_json=as_json)
    return asyncio.run(_submit(programs, on, given, dry_run, wait, as_json))


async def _prepared(
    programs: tuple[str, ...], options: batch.SubmitOptions, host: Host, client: SlurmClient
) -> batch.Prepared:
    if any(map(is_script, programs)):
        read = await asyncio.to_thread(read_scripts, programs)
        return await prepare_scripts(read, options, host.runner, client)
    if len(programs) > 1:
        raise UsageError(
            f"{len(programs)} notebooks cannot be one job.",
            "Submit each by itself; --after JOBID lets one wait for another.",
        )
    return await batch.prepare(Path(programs[0]), options, host.runner, client)


async def _submit(
    programs: tuple[str, ...],
    on: str | None,
    given: dict[str, Any],
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> int:
    if given["at_once"] is not None and not given["sweep"]:
        raise UsageError(
            f"--at-once {given['at_once']} is about the runs of a sweep, and this is one run.",
            "Add --sweep NAME=A,B,C, or leave --at-once out.",
        )
    if given["until"] and not (given["chain"] or given["requeue"]):
        raise UsageError(
            f"--until {given['until']} says what ends a chain, and this job has one part.",
            "Add --chain N or --requeue, or leave --until out.",
        )
    async with open_host(on) as host:
        client = SlurmClient(host.runner)
        profile = await _without_guesses(host.profile, client)
        choices = choices_of(given, profile)
        options = submit_options(choices, profile, here=host.here)
        if given["trial"]:
            options = await tried(programs, choices, options, given, host, client)
        try:
            prepared = await _prepared(programs, options, host, client)
        except ConversionRefused as error:
            raise ConversionRefused(error.message, _as_options(error.hint)) from error
        _show_findings(prepared, errors=dry_run or prepared.force)
        if dry_run:
            _show_plan(prepared, as_json)
            stops = has_errors(prepared.findings) and not prepared.force
            return PreflightFailed.exit_code if stops else 0
        _tell_cost(prepared)
        done = await batch.submit(prepared, host.runner, client, sending(host))
        for message in done.messages:
            click.echo(printable(message), err=True)
        click.echo(json.dumps(done.to_json()) if as_json else done.job_id)
        where = f" --on {on}" if on else ""
        if not wait:
            _tell(f"Follow it with: jupyter-hpc log -f {done.job_id}{where}")
            return 0
        poll = profile.slurm.poll_seconds if profile is not None else 0
        code = await _wait(client, host.runner, done.job_id, poll)
        if code:
            _tell(f"It ended with code {code}; its log: jupyter-hpc log {done.job_id}{where}")
        return code


def _tell(text: str) -> None:
    """For a person who looks on; a script has the id and the code."""
    if sys.stderr.isatty():
        click.echo(printable(text), err=True)


def choices_of(given: dict[str, Any], profile: Profile | None) -> Choices:
    """The options of the command line as choices."""
    names = (
        *("partition", "account", "qos", "nodes", "tasks", "tasks_per_node", "cpus", "gpus"),
        "gpu_type",
    )
    return Choices(
        mode=given["mode"],
        skip_invalid=given["skip_invalid"],
        preset=given["preset"],
        request={
            **{name: given[name] for name in (*names, "constraint")},
            "time": given["time_"] or given["unit"],
            "memory": given["mem"],
            "extra": given["extra"],
        },
        settings=dict(parse_setting(text) for text in given["settings"]),
        sweep=_swept(given),
        at_once=given["at_once"],
        chain=_parts(given),
        chain_unit=_unit(given),
        until=given["until"],
        requeue=given["requeue"],
        isolate=given["isolate"],
        after=given["after"],
        stage_in=given["stage_in"],
        stage_out=given["stage_out"],
        environment=_environment(given, profile),
        notify=given["notify"],
        force=given["force"],
    )


async def _without_guesses(profile: Profile | None, client: SlurmClient) -> Profile | None:
    """The profile without a partition that it only guesses and that is not there."""
    if profile is None or profile.is_sure("allocation.partition"):
        return profile
    try:
        return without_guesses(profile, await client.partitions())
    except HpcError:
        return profile  # what Slurm says to the job is said then


def _parts(given: dict[str, Any]) -> int | None:
    """The number of parts of a chain, unless it is to be computed."""
    text = given["chain"]
    if text is None or text == "auto":
        return None
    if not text.isdigit() or int(text) < 2:
        raise UsageError(
            f"--chain {printable(text, 40)} is no number of parts.", "Give 2 or more, or auto."
        )
    return int(text)


def _unit(given: dict[str, Any]) -> int | None:
    """Seconds of a part, where a trial run tells how many there have to be."""
    if (given["chain"] == "auto") != (given["unit"] is not None):
        raise UsageError(
            "--chain auto and --unit belong together.",
            "Write --chain auto --unit 24:00:00, or --chain N.",
        )
    if given["unit"] is None:
        return None
    return parse_walltime(given["unit"])


def _swept(given: dict[str, Any]) -> dict[str, list[str]]:
    """The values of each swept parameter; one that has values already is an error."""
    taken = {parse_setting(text)[0] for text in given["settings"]}
    swept: dict[str, list[str]] = {}
    for name, values in map(parse_sweep, given["sweep"]):
        if name in taken or name in swept:
            raise UsageError(
                f"The parameter {name} is given more than once.",
                f"Name all its values in one option: --sweep {name}=a,b,c.",
            )
        swept[name] = values
    return swept


def _environment(given: dict[str, Any], profile: Profile | None) -> Environment | None:
    """The Python that was asked for; the lines of the profile come before it."""
    names = {"conda": "conda", "venv": "venv", "build": "build_from", "container": "container"}
    python = {member: given[name] for name, member in names.items() if given[name]}
    if not python and not given["modules"]:
        return None
    return profile_environment(profile, modules=given["modules"], **python)


def _as_options(hint: str) -> str:
    """A way out in the words of the command line."""
    hint = hint.replace("As an executed notebook", "As an executed notebook (--mode notebook)")
    return re.sub(r"Set the parameter (\w+)", r"Set the parameter \1 (--set \1=…)", hint)


def _show_findings(prepared: batch.Prepared, *, errors: bool) -> None:
    """What to know and to do before the job runs; stdout stays the job id's.

    Without `errors` only the rest is shown: they are about to end the submit, which names them.
    """
    findings = [found for found in prepared.findings if errors or found.severity != "error"]
    for notice in prepared.conversion.notices:
        click.echo(printable(f"note, cell {notice.cell}: {notice.message}"), err=True)
    written = prepared.overwritten
    for names, effect in ((written.replaced, "overwritten"), (written.added_to, "appended to")):
        if names:
            told = f"note: will be {effect}: {', '.join(names)} (not with --isolate)"
            click.echo(printable(told), err=True)
    for step in prepared.conversion.prepare:
        click.echo(printable(f"run on the login node first: {step.command}"), err=True)
    note = note_of(prepared)
    if note:
        click.echo(printable(note), err=True)
    for found in findings:
        click.echo(printable(str(found)), err=True)
    if findings:
        click.echo(f"Found before the queue: {counted(findings)}.", err=True)


def _show_plan(prepared: batch.Prepared, as_json: bool) -> None:
    plan = prepared.to_json()
    if as_json:
        click.echo(json.dumps(plan))
        return
    click.echo(prepared.script)
    if plan["estimated_start"]:
        from jupyter_hpc.cli.render import clock

        click.echo(f"Estimated start: {clock(plan['estimated_start'])} (an estimate)", err=True)
    _tell_cost(prepared)


def _tell_cost(prepared: batch.Prepared) -> None:
    if prepared.cost is not None:
        click.echo(printable(f"Cost: at most {prepared.cost}"), err=True)


def _progress(jobs: Sequence[Job]) -> str:
    """How far a job is, so that a person sees what is waited for; of an array the first tasks."""
    running = [f"{job.id} on {job.nodes}" for job in jobs if job.phase is Phase.RUNNING]
    if running:
        return f"Running: {', '.join(running[:4])}{', …' if running[4:] else ''}"
    reasons = [job.reason for job in jobs if job.phase is Phase.PENDING]
    return f"Waiting: {explain_reason(reasons[0]).text}" if reasons else ""


async def _wait(client: SlurmClient, runner: Runner, job_id: str, poll: float = 0) -> int:
    """Until the job is over; its own exit code, of an array the highest.

    `poll` are the seconds between two looks at the queue that the site asks for.
    """
    longest = max(_WAIT_POLL_SECONDS, poll)
    pause = 2.0
    silent_since: float | None = None
    shown = ""
    while True:
        try:
            jobs = [job for job in await client.my_jobs() if (job.array_id or job.job_id) == job_id]
            silent_since = None
            if (state := _progress(jobs)) not in ("", shown):
                _tell(shown := state)
            if all(job.phase is Phase.ENDED for job in jobs):
                break
            if jobs and await _is_held(runner, jobs, job_id):
                break  # nothing more happens until a person releases it
        except HpcError as error:
            # A job takes days, and a controller is restarted now and then.
            silent_since = silent_since or time.monotonic()
            if not error.transient or time.monotonic() - silent_since > _MAX_SILENCE_SECONDS:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, longest)
    code = await exit_code(runner, job_id)
    # Accounting lags behind the queue by seconds.
    found = await _ending(client, runner, job_id)
    if found:
        click.echo(printable(found), err=True)
    for missing in (await missing_files(runner, [job_id], over=[job_id])).values():
        click.echo(printable(str(missing)), err=True)
    if code is not None:
        return code
    # It never came to its end: cancelled while it waited, or killed with its node.
    detail = await client.job_detail(job_id)
    return detail.exit_code or 1


async def _is_held(runner: Runner, jobs: Sequence[Job], job_id: str) -> bool:
    """Whether all that is left of a job waits because it got nowhere."""
    if any(job.phase is not Phase.PENDING for job in jobs):
        return False
    names = [job.id if job.id.replace("_", "").isdigit() else job_id for job in jobs]
    left = await left_by(runner, names)
    return bool(left) and all(each.held for each in left.values())


async def _ending(client: SlurmClient, runner: Runner, job_id: str) -> str:
    """How a job that has left the queue ended; "" if there is nothing to say of it."""
    for _ in range(_RECORD_SECONDS):
        text, over = await ending_of(runner, client, job_id)
        if over:
            break
        await asyncio.sleep(1.0)
    rest = (await left_by(runner, [job_id])).get(job_id)
    said = [rest.rest] if rest is not None and rest.rest else []
    code = await exit_code(runner, job_id)
    if code is None and over and (lost := await unnoted_end(runner, client, job_id)):
        return lost
    if code != 0 and text and text not in said:
        said.insert(0, text)
    return "\n".join(said)
