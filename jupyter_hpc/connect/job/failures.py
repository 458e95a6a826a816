"""What launch.sh and Jupyter wrote when they gave up, as errors with a next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.remote import first
from jupyter_hpc.connect.job.scripts import EXIT_LINE
from jupyter_hpc.errors import LaunchFailed
from jupyter_hpc.text import printable, printable_lines

#: Of what Jupyter wrote before it ended, so much is shown; the rest is in its log.
MAX_OUTPUT_LINES = 8


def explain_failure(fields: Mapping[str, Sequence[str]], profile: Profile) -> LaunchFailed:
    """What launch.sh wrote when it gave up, as a sentence with a next step."""
    kind = first(fields, "kind")
    output = printable_lines("\n".join(fields.get("output", []))).strip()
    setup = " && ".join(profile.environment.setup)
    install = "python3 -m venv ~/jupyter && ~/jupyter/bin/pip install jupyterlab jupyter-hpc"
    where = profile.login.host[0]
    if kind == "environment":
        command = printable(first(fields, "command"))
        return LaunchFailed(
            f"Environment line {printable(first(fields, 'line'))} failed on the node with exit "
            f"code {printable(first(fields, 'code'))}: {command}"
            + (f"\n{output}" if output else ""),
            f"Try it by hand: ssh {where}, then: {setup}. "
            f"The lines stand under [environment] setup in {profile.source}.",
        )
    if kind in ("jupyter", "python"):
        missing = printable(first(fields, "command")) or "a Python of 3.8 or newer"
        activate = setup or "source ~/jupyter/bin/activate"
        return LaunchFailed(
            f"{missing} was not found on the node after the environment lines had run.",
            f"Set it up once on the login host: ssh {where}, then: {install}. Then add to the "
            f'profile: [environment] setup = ["{activate}"].',
        )
    if kind == "root":
        root = printable(first(fields, "root"))
        return LaunchFailed(
            f"JupyterLab's folder {root} does not exist on the node.",
            f"Correct [jupyter] root_dir in {profile.source}.",
        )
    text = printable(first(fields, "text")) or "The launch script gave up without a reason."
    return LaunchFailed(text, "`jupyter-hpc logs NAME` shows what the cluster wrote.")


def explain_silence(job_id: str, session: str, srun_log: str, seconds: float) -> LaunchFailed:
    """The step of Jupyter told nothing within `seconds`: srun did not start it, or it hangs."""
    if EXIT_LINE in srun_log:
        said = printable_lines(srun_log.partition(EXIT_LINE)[0]).strip()
        return LaunchFailed(
            f"No step could be started in job {job_id}: {said or 'srun said nothing'}",
            f"Try it by hand on the cluster: srun --jobid={job_id} --overlap --ntasks=1 hostname",
        )
    return LaunchFailed(
        f"Jupyter did not start in job {job_id} within {seconds:g} s. "
        f"{printable_lines(srun_log).strip()}".strip(),
        f"Look at {session}/jupyter.log on the cluster: `jupyter-hpc logs NAME` shows it.",
    )


def explain_exit(session: str, ended: Mapping[str, Sequence[str]]) -> LaunchFailed:
    """Jupyter started and ended; `ended` is what launch.sh wrote then, {} if nothing."""
    code = printable(first(ended, "code")) or "unknown"
    output = printable_lines("\n".join(ended.get("output", [])[-MAX_OUTPUT_LINES:])).strip()
    return LaunchFailed(
        f"Jupyter ended as soon as it was started, with exit code {code}."
        + (f" It wrote:\n{output}" if output else ""),
        f"The whole log is {session}/jupyter.log on the cluster (`jupyter-hpc logs NAME`).",
    )
