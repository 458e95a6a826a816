"""What launch.sh and Jupyter wrote when they gave up, as errors with a next step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.remote import EXIT_LINE, UNWRITABLE_LINE, first
from jupyter_hpc.errors import CommandFailed, LaunchFailed
from jupyter_hpc.text import printable, printable_lines

#: Of what Jupyter wrote before it ended, so much is shown; the rest is in its log.
MAX_OUTPUT_LINES = 8

#: What programs say when they may start no further process or thread.
_NO_PROCESS = re.compile(
    r"fork: .*Resource temporarily unavailable|[Cc]annot fork|can't start new thread"
    r"|pthread_create failed|BlockingIOError: \[Errno 11\]"
)

#: `jupyter lab` where there is a `jupyter` and no `jupyter-lab`.
_NO_SUBCOMMAND = re.compile(r"Jupyter command `(jupyter-[\w-]+)` not found")

#: How a shell begins what it says of a line: our script is of no interest there.
_OUR_SCRIPT = re.compile(r"^\S*/launch\.sh: (?:eval: )?(?:line \d+: )?")

#: A shell that does not find the script which it is to run.
_NO_SCRIPT = re.compile(r"(?:[Cc]an'?(?:no)?t open|No such file).*launch\.sh|launch\.sh: No such")


def explain_failure(fields: Mapping[str, Sequence[str]], profile: Profile) -> LaunchFailed:
    """What launch.sh wrote when it gave up, as a sentence with a next step."""
    kind = first(fields, "kind")
    output = _lines(fields)
    if _NO_PROCESS.search(output):
        return _no_processes("", output)
    if kind == "environment":
        code = printable(first(fields, "code"))
        return LaunchFailed(
            f"{_line(fields)} failed on the node with exit code {code}: {_command(fields)}"
            + (f"\n{output}" if output else ""),
            _try_by_hand(profile),
        )
    if kind == "exit":
        return _ends_shell(fields, profile)
    if kind == "path":
        return LaunchFailed(
            f"{_line(fields)} takes the system's own programs (cat, rm) out of PATH: "
            f"{_command(fields)}",
            f"Keep what was there: PATH=…:$PATH. {_where(profile)}",
        )
    if kind == "died":
        return LaunchFailed(
            "The script that starts Jupyter ended by itself after the environment lines, with "
            f"exit code {printable(first(fields, 'code'))}.",
            f"Look at what they change in the shell. {_where(profile)}",
        )
    if kind in ("jupyter", "python"):
        missing = printable(first(fields, "command")) or "a Python of 3.9 or newer"
        return LaunchFailed(
            f"{missing} was not found on the node after the environment lines had run.",
            _install(profile),
        )
    if kind == "relay":
        python = printable(first(fields, "python"))
        return LaunchFailed(
            "The relay, through which JupyterLab is reached, was started on the node with "
            f"{python} and has not answered for a minute." + (f"\n{output}" if output else ""),
            f"Try that Python by hand in the job, or set up another one. {_where(profile)}",
        )
    if kind == "root":
        root = printable(first(fields, "root"))
        return LaunchFailed(
            f"JupyterLab's folder {root} does not exist on the node.",
            f"Correct [jupyter] root_dir in {profile.source}.",
        )
    text = printable(first(fields, "text")) or "The launch script gave up without a reason."
    return LaunchFailed(text, "Tell the site which node it is, or ask for another one.")


@dataclass(frozen=True)
class Silence:
    """A step that told nothing: what srun said, and the environment line that was under way."""

    job_id: str
    session: str
    srun_log: str
    seconds: float
    line: Mapping[str, Sequence[str]]


def explain_silence(silence: Silence, profile: Profile) -> LaunchFailed:
    """The step of Jupyter told nothing: srun did not start it, or it ended or hangs."""
    said, over, _ = silence.srun_log.partition(EXIT_LINE)
    said = printable_lines(said).strip()
    unwritable = said.partition(UNWRITABLE_LINE)[2].partition("\n")[0].strip()
    if unwritable:
        node, _, folder = unwritable.partition(": ")
        return LaunchFailed(
            f"{node} cannot write to {folder}: the home folder is read-only or full there.",
            "Ask the site, or ask for another node.",
        )
    if _NO_SCRIPT.search(said):
        return LaunchFailed(
            f"The node does not see {printable(silence.session)}: the home folder of the login "
            f"host is not there.\n{said}",
            "Ask the site whether home folders are shared with this node, or ask for another.",
        )
    if _NO_PROCESS.search(said):
        return _no_processes("", said)
    if over and silence.line:
        return _ends_shell(silence.line, profile)
    if over:
        return LaunchFailed(
            f"No step could be started in job {silence.job_id}: {said or 'srun said nothing'}",
            _try_step(silence.job_id),
        )
    if silence.line:
        return LaunchFailed(
            f"{_line(silence.line)} did not come to an end within {silence.seconds:g} s: "
            f"{_command(silence.line)}",
            _try_by_hand(profile),
        )
    return LaunchFailed(
        f"Jupyter did not start in job {silence.job_id} within {silence.seconds:g} s. "
        f"{said}".strip(),
        f"Look at {silence.session}/jupyter.log on the cluster.",
    )


def explain_mute(job_id: str, node: str, said: str) -> CommandFailed:
    """The node of the job did not run a small script of ours; it, ssh or srun `said` this."""
    return CommandFailed(
        f"Nothing can be run on {node}, the node of job {job_id}: {said}", _try_step(job_id)
    )


def explain_exit(
    session: str, ended: Mapping[str, Sequence[str]], profile: Profile
) -> LaunchFailed:
    """Jupyter started and ended; `ended` is what launch.sh wrote then, {} if nothing."""
    output = _lines(ended, MAX_OUTPUT_LINES)
    missing = _NO_SUBCOMMAND.search(output)
    if missing:
        return LaunchFailed(
            f"{missing[1]} was not found on the node. Jupyter wrote:\n{output}", _install(profile)
        )
    if _NO_PROCESS.search(_lines(ended)):
        return _no_processes(printable(first(ended, "processes")), output)
    code = printable(first(ended, "code")) or "unknown"
    return LaunchFailed(
        f"Jupyter ended as soon as it was started, with exit code {code}."
        + (f" It wrote:\n{output}" if output else ""),
        ""
        if session.startswith("/tmp/")  # it goes with the job  # noqa: S108
        else f"The whole log is {session}/jupyter.log on the cluster.",
    )


def _lines(fields: Mapping[str, Sequence[str]], last: int = 0) -> str:
    """The last lines of what was printed, without the shell's words for where our script is."""
    lines = [_OUR_SCRIPT.sub("", line) for line in fields.get("output", [])[-last:]]
    return printable_lines("\n".join(lines)).strip()


def _line(fields: Mapping[str, Sequence[str]]) -> str:
    return f"Environment line {printable(first(fields, 'line'))}"


def _command(fields: Mapping[str, Sequence[str]]) -> str:
    return printable(first(fields, "command"))


def _where(profile: Profile) -> str:
    return f"The lines stand under [environment] in {profile.source}."


def _try_step(job_id: str) -> str:
    return f"Try it by hand on the cluster: srun --jobid={job_id} --overlap --ntasks=1 hostname"


def _try_by_hand(profile: Profile) -> str:
    setup = " && ".join(profile.environment.for_jupyter)
    return f"Try it by hand: ssh {profile.login.host[0]}, then: {setup}. {_where(profile)}"


def _ends_shell(fields: Mapping[str, Sequence[str]], profile: Profile) -> LaunchFailed:
    output = _lines(fields, MAX_OUTPUT_LINES)
    return LaunchFailed(
        f"{_line(fields)} ended the shell (exit, exec, set -e), so that Jupyter could not be "
        f"started after it: {_command(fields)}" + (f"\n{output}" if output else ""),
        "The lines run one after the other in one shell: a line may set it up, not leave it. "
        + _where(profile),
    )


def _no_processes(limit: str, output: str) -> LaunchFailed:
    limit = f": {limit}" if limit else ""
    return LaunchFailed(
        f"Jupyter could not start: no further process or thread may be started on the node; the "
        f"limit (ulimit -u{limit}) is too low, or used up by other programs of yours.\n{output}",
        "Look for `ulimit` in the environment lines and in your start-up files, end what runs "
        "there, or ask the site for a higher limit.",
    )


def _install(profile: Profile) -> str:
    """How what is missing gets there; lines that the profile has already are not proposed."""
    host, setup = profile.login.host[0], " && ".join(profile.environment.for_jupyter)
    if setup:
        return (
            f"Build an environment with it: jupyter-hpc setup {profile.name}. Or install it in the "
            f"one of the profile: ssh {host}, then: {setup} && pip install jupyterlab jupyter-hpc. "
            f"Or name another one: {_where(profile)}"
        )
    return (
        f"Build an environment with it: jupyter-hpc setup {profile.name}. Or by hand: ssh {host}, "
        "then: python3 -m venv ~/jupyter && ~/jupyter/bin/pip install jupyterlab jupyter-hpc, and "
        'add to the profile: [environment] setup = ["source ~/jupyter/bin/activate"].'
    )
