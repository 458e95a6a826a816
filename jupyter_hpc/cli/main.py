"""`jupyter-hpc`, also `jupyter hpc`: the table of commands.

Commands are imported when they are used, so that `--help` and shell completion
need neither SSH nor a notebook library. Errors end here, once.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from jupyter_hpc import __version__
from jupyter_hpc.cli.render import show_error
from jupyter_hpc.cli.verbose import VERBOSE
from jupyter_hpc.errors import HpcError

#: command -> (module, attribute, one line of help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "connect": ("connect", "connect", "Open JupyterLab on a compute node of a cluster."),
    "status": ("sessions", "status", "Show what runs: here, and on the clusters."),
    "open": ("sessions", "open_", "Open a session in the browser."),
    "url": ("sessions", "url", "Print a session's address with its token."),
    "logs": ("session_logs", "logs", "Show what Jupyter wrote, or the session's own log."),
    "forward": ("forwards", "forward", "Bring a port or socket of the node to this laptop."),
    "tensorboard": ("forwards", "tensorboard", "Start TensorBoard in a session and open it."),
    "disconnect": ("sessions", "disconnect", "Leave a session; its job stays."),
    "stop": ("sessions", "stop", "End a session and cancel its job."),
    "setup": ("setup", "setup", "Make the environment that sessions on a cluster need."),
    "push": ("files", "push", "Copy files and folders to a cluster."),
    "pull": ("files", "pull", "Copy files and folders from a cluster."),
    "sync": ("files", "sync", "Make a folder on one side the same as on the other."),
    "report-bug": ("report_bug", "report_bug", "Pack what a bug report needs, without secrets."),
    "info": ("info", "info", "Show what is free on a cluster, and what is mine there."),
    "doctor": ("doctor", "doctor", "Check everything that a session needs, and say what to fix."),
    "clusters": ("clusters", "clusters", "List the cluster profiles, or show one."),
    "convert": ("convert", "convert", "Turn notebooks into scripts and batch jobs."),
    "submit": ("submit", "submit", "Run a notebook as a batch job."),
    "jobs": ("jobs", "jobs", "List my jobs, waiting, running and finished."),
    "log": ("jobs", "log", "Show the log of a job."),
    "cancel": ("jobs", "cancel", "Cancel a job."),
    "results": ("jobs", "results", "Fetch what a job has produced."),
    "runs": ("runs", "runs", "List the runs ever submitted, with what they reached."),
    "report": ("report", "report", "Write one page about a job: curves, figures, use, advice."),
    "ticket": ("ticket", "ticket", "Print what the site's support needs to know of a job."),
    "demo": ("demo", "demo", "Try everything on an embedded cluster."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(f"jupyter_hpc.cli.{module}"), attribute)
        if not isinstance(found, click.Command):  # pragma: no cover (a wrong table)
            raise TypeError(f"{module}.{attribute} is not a command")
        if VERBOSE not in found.params:
            found.params.append(VERBOSE)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, _, help_) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest commands when one is mistyped."""
        import difflib

        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 2)
            guess = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{guess}")
        return super().resolve_command(ctx, args)


@click.command(
    cls=LazyGroup,
    params=[VERBOSE],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="jupyter-hpc")
def cli() -> None:
    """JupyterLab on Slurm clusters: a bookmark that survives, a button that submits."""


def main(arguments: list[str] | None = None) -> Any:
    """Run one command and exit with its code; the only place that exits."""
    try:
        code = cli.main(args=arguments, prog_name="jupyter-hpc", standalone_mode=False)
    except HpcError as error:
        show_error(error)
        code = error.exit_code
    except click.ClickException as error:
        words = sys.argv[1:] if arguments is None else arguments
        if "connect" in words and "--json" in words:
            _tell_program(error)
        error.show()
        code = error.exit_code
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        code = 130
    except BrokenPipeError:
        # The reader of our output has gone, as in `jupyter-hpc logs | head`.
        sys.stderr.close()
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _tell_program(error: click.ClickException) -> None:
    """A command line that cannot be understood, for the program that reads --json."""
    from jupyter_hpc.cli.foreground import print_failure
    from jupyter_hpc.errors import UsageError

    print_failure(UsageError(error.format_message()), "", error.exit_code)
