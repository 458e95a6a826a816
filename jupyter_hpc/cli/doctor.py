"""`jupyter-hpc doctor`: a line for each thing that a session needs, and a fix for what is wrong."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from jupyter_hpc.cli.short_job import end_with_signals, wait_option
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.connect.doctor.checks import Check, Report

#: Signs and colours of the outcomes.
_SIGNS = {
    "ok": ("ok", "green"),
    "note": ("note", "yellow"),
    "failed": ("FAILED", "red"),
    "skipped": ("-", "bright_black"),
}
_WIDTH = 22


@click.command()
@click.argument("name")
@click.option("--no-job", is_flag=True, help="Ask for no job; what only a job shows is left out.")
@wait_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, a summary last.")
def doctor(name: str, no_job: bool, wait: float, as_json: bool) -> int:
    """Check everything between this computer and a JupyterLab on the cluster NAME.

    At most one small job is asked for; it is given back at the end, also after Ctrl-C. The
    exit code is 0 if all is well, 1 if a check failed.
    """
    return asyncio.run(_doctor(name, not no_job, wait, as_json))


async def _doctor(name: str, job: bool, wait_seconds: float, as_json: bool) -> int:
    from jupyter_hpc.connect.doctor.examination import Examination
    from jupyter_hpc.connect.job.request import find_profile
    from jupyter_hpc.connect.ssh.prompts import NoPrompter, terminal_prompter

    asks = sys.stdin.isatty() and not as_json
    profile, _ = find_profile(name)
    examination = Examination(
        profile,
        terminal_prompter() if asks else NoPrompter(),
        _print_json if as_json else _print_line,
        _tell,
        job=job,
        wait_seconds=wait_seconds,
    )
    began = time.monotonic()
    work = asyncio.ensure_future(examination.run())
    caught = end_with_signals(work, lambda: _tell("One moment: what was asked for is given back."))
    try:
        report = await work
    except asyncio.CancelledError:
        if not caught:
            raise
        _tell("Interrupted.")
        return 128 + caught[0]
    seconds = time.monotonic() - began
    if as_json:
        click.echo(json.dumps(_summary(report, profile.name, seconds)))
    else:
        click.echo(_verdict(report, profile.name, seconds))
    return 1 if report.failures else 0


def _print_json(check: Check) -> None:
    sys.stdout.write(json.dumps(check.to_json()) + "\n")
    sys.stdout.flush()


def _print_line(check: Check) -> None:
    sign, colour = _SIGNS[check.outcome.value]
    head = click.style(f"{sign:>6}", fg=colour, bold=check.outcome.value == "failed")
    click.echo(f"{head}  {check.title:<{_WIDTH}}  {check.text}")
    if check.fix:
        click.echo(f"{'':>6}  {'':<{_WIDTH}}  -> {check.fix}")
    sys.stdout.flush()


def _tell(text: str) -> None:
    click.echo(printable(text, 500), err=True)


def _counts(report: Report) -> dict[str, int]:
    outcomes = [check.outcome.value for check in report.checks.values()]
    return {word: outcomes.count(word) for word in _SIGNS}


def _summary(report: Report, name: str, seconds: float) -> dict[str, Any]:
    return {
        "summary": "failed" if report.failures else "ok",
        "cluster": name,
        **_counts(report),
        "failures": [check.name for check in report.failures],
        "seconds": round(seconds, 1),
    }


def _verdict(report: Report, name: str, seconds: float) -> str:
    counts = _counts(report)
    took = f"({seconds:.1f} s)"
    if not report.failures:
        notes = f", {counts['note']} to know" if counts["note"] else ""
        return (
            f"All is well: {counts['ok']} checks{notes}. {took} Go on: jupyter-hpc connect {name}"
        )
    first = report.failures[0].title
    more = f" (and {len(report.failures) - 1} more)" if len(report.failures) > 1 else ""
    return f"Not well: {first} failed{more}. Do what stands below it, then look again. {took}"
