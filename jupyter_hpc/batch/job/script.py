"""The text of the batch script: header, environment, staging, program, and what comes after.

Pure text in, pure text out; the pieces are kept in the order in which the job meets
them. The script is plain bash that a person can read, change and submit again.
"""

from __future__ import annotations

import shlex

from jupyter_hpc.batch.job.ending import ending_text, indent
from jupyter_hpc.batch.job.environment import container_words, environment_text
from jupyter_hpc.batch.job.files import REPORT, stem
from jupyter_hpc.batch.job.going_on import begin_text
from jupyter_hpc.batch.job.header import header_text
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.job.steps import step_functions, steps_text
from jupyter_hpc.batch.runtime import DRIVER_FILE, SIDECAR_FILE
from jupyter_hpc.batch.runtime.job.marks import NOBODY
from jupyter_hpc.slurm import jobtext
from jupyter_hpc.slurm.releases import BESIDE, FORGET_GPUS
from jupyter_hpc.text import printable


def script_text(job: BatchJob) -> str:
    """The whole batch script."""
    rest = [
        ending_text(job),
        _after_chains(job),
        environment_text(job),
        _own_folder(job),
        _staging_in(job),
        begin_text(job),
        _program(job),
        _running(job),
    ]
    sidecar = any('"$sidecar"' in part for part in rest)
    return "\n".join(part for part in (header_text(job), _opening(job, sidecar), *rest) if part)


def _opening(job: BatchJob, sidecar: bool) -> str:
    helper = f'sidecar="$run/{SIDECAR_FILE}"    # stages data, copies results, records GPUs\n'
    folder = "/$task" if job.sweep else ""  # the runs of a sweep must not meet
    safe = "|".join(map(str, (0, *NOBODY)))
    own = f"{jobtext.whole_job()}${{task:+_$task}}"
    return f"""\
# Runs {printable(job.notebook, 200)}; written by jupyter-hpc, needs none of it to run.
# No `set -e`: whatever fails, the results must still be brought back.
set -u

{jobtext.IDENTITY}
run={shlex.quote(job.run_dir)}    # the frozen notebook, its parameters and its results
work={shlex.quote(job.work_dir)}    # the folder of the notebook
output="$run/output{folder}"    # figures, values, the GPU record, files from scratch
{helper * sidecar}cwd="$work"
# Who may write around that folder could have put another one in its place. Some file servers
# call every owner nobody, which is no user who could have made it.
if [ ! -O "$run" ] && ! [[ $(stat -c %u -- "$run") =~ ^({safe})$ ]]; then
    printf '[jupyter-hpc] %s is not the folder of this job; nothing runs in it\\n' "$run" >&2
    exit 1
fi
# Nobody else may put a checkpoint there: the next part would load it.
mkdir -p "$output" && (umask go-w && mkdir -p "$run/checkpoints{folder}") || exit 1
rm -f "$output/DONE"
export JUPYTER_HPC_OUTPUT="$output"
export JUPYTER_HPC_CHECKPOINTS="$run/checkpoints{folder}"    # survives restarts and time limits
{_root_of_lightning(job)}\

say() {{ printf '[jupyter-hpc] %s\\n' "$*" >&2; }}
say "job {own} on $(hostname), restarted {jobtext.restarts()} times"
"""


def _after_chains(job: BatchJob) -> str:
    if not job.after_chains:
        return ""
    words = [f"{each.job_id}:{folder}" for each in job.after_chains for folder in each.outputs]
    return f"""\
# ---- the chains that this job waits for must be done, and not only over ----
for before in {" ".join(map(shlex.quote, words))}; do
    folder=${{before#*:}}
    # The file server may show this node for a moment what was there before.
    [ -e "$folder/DONE" ] || {{ sleep 2; ls -a "$folder" > /dev/null; }}
    [ ! -e "$folder/DONE" ] || continue
    why=$(sed -n 's/.*"rest": "\\([^"]*\\)".*/\\1/p' "$folder/state.json")
    say "not started: job ${{before%%:*}}, which it waits for, is not done. $why"
    exit
done
"""


def _root_of_lightning(job: BatchJob) -> str:
    if not (job.goes_on and job.in_notebooks_folder):
        return ""
    return """\
# Lightning goes on from what is in its folder, whoever has left it there.
export PL_TRAINER_DEFAULT_ROOT_DIR="${PL_TRAINER_DEFAULT_ROOT_DIR:-$JUPYTER_HPC_CHECKPOINTS}"
"""


def _own_folder(job: BatchJob) -> str:
    if not job.isolated:
        return ""
    return """\
# ---- a working folder of this run's own, with what the notebook's folder holds ----
cwd=$(python3 "$sidecar" isolate "$run/folder.json" "$output") || exit 1
"""


def _staging_in(job: BatchJob) -> str:
    if job.staging is None:
        return ""
    others = ""
    if job.nodes > 1:
        every = jobtext.on_every_node()
        others = f"""\
# The other nodes get the same folder with the same inputs; the first one, this one, has it.
# A look at the folder would not tell: another user may have put a link there.
# shellcheck disable=SC2016  # each node expands it for itself
stage='[ "${{SLURM_NODEID:-0}}" = 0 ] || python3 "$1" stage-in "$2" "$3" "$4"'
{every} bash -c "$stage" stage "$sidecar" "$run/staging.json" "$output" "$scratch" \\
    > /dev/null || exit 1
# Nobody may have put another folder in its place on one of them.
{every} python3 "$sidecar" check-staged "$scratch" "$output" || exit 1
"""
    return f"""\
# ---- data to the node's own disk ----
staged=$(python3 "$sidecar" stage-in "$run/staging.json" "$output") || exit 1
{{ read -r identity; read -r scratch; read -r cwd; }} <<< "$staged"
{others}\
# Nobody may have put another folder in its place.
if [ "$(stat -c %d:%i -- "$scratch")" != "$identity" ] || [ ! -O "$scratch" ]; then
    say "$(hostname):$scratch is not the folder that was staged; nothing runs in it"
    exit 1
fi
"""


def _program(job: BatchJob) -> str:
    if job.steps:
        return _PROGRAM.format(check=_check_gpu(job), tasks=_tasks(job), start=step_functions(job))
    name = stem(job.notebook)
    if job.mode == "script":
        words = ["-u", f'"$run"/{shlex.quote(name + ".py")}']
    else:
        notebook = shlex.quote(name + ".ipynb")
        words = [f'"$run/{DRIVER_FILE}"', f'"$run"/{notebook}', f'"$output"/{notebook}']
        words += ["--report", f'"$run/{REPORT}"']
    if job.sweep:
        words += ["--parameters", '"$run/parameters/$task.json"']
    elif job.parameters_inline:
        words += [shlex.quote(f"--set={name}={value}") for name, value in job.parameters.items()]
    elif job.parameters:
        words += ["--parameters", '"$run/parameters.json"']
    launch = jobtext.step(ranked=job.tasks > 1, beside=job.nodes > 1)
    start = f"""\
start() {{
    exec {launch} {container_words(job)}python3 {" ".join(words)}
}}
"""
    return _PROGRAM.format(check=_check_gpu(job), tasks=_tasks(job), start=start)


_PROGRAM = """\
# ---- the program ----
cd "$cwd" || exit 1
export PYTHONUNBUFFERED=1 WANDB_MODE="${{WANDB_MODE:-offline}}"
{check}{tasks}{start}\
"""


def _check_gpu(job: BatchJob) -> str:
    if not job.check_gpu or not job.gpus:
        return ""
    return f"""\
# Hours in the queue are lost if PyTorch cannot use the GPU: look first.
{container_words(job)}python3 "$sidecar" check-gpu || exit 1
"""


def _tasks(job: BatchJob) -> str:
    if job.tasks <= 1:
        return jobtext.ALONE
    leader = "node" if job.staging else "job"
    shared = f'"$output/.ranks-$job-{jobtext.restarts()}"'
    if job.staging:
        shared = '"$scratch/.jupyter-hpc-scratch-ranks"'
    return f"""\
{jobtext.RENDEZVOUS}{jobtext.RANKED}\
# Shell lines, figures and files happen once, not once per process.
export JUPYTER_HPC_LEADER={leader} JUPYTER_HPC_RANKS={shared}
"""


def _running(job: BatchJob) -> str:
    if job.steps:
        return f"# ---- go ----\n{_sidecar(job)}{steps_text(job, indent(indent(_patience(job))))}"
    return f"""\
# ---- go ----
start &
program=$!
{_sidecar(job)}\
# bash runs its traps only while it waits; each ends the wait, so wait again.
while :; do
    wait "$program"
    code=$?
    [ "$interrupted" -eq 1 ] || break
    interrupted=0
{indent(_patience(job))}done
exit "$code"
"""


def _sidecar_words(job: BatchJob) -> list[str]:
    words: list[str] = []
    if job.staging is not None:
        words += ['--plan "$run/staging.json"', '--scratch "$scratch"', '--results "$output"']
        words += [f"--interval {job.staging.interval}"]
    if job.gpus:
        words += ['--gpus "$output/gpu-usage.csv"']
    if words and job.environment.container is None:  # whose Python is not the one out here
        words += ['--environment "$output"']
    return words


def _sidecar(job: BatchJob) -> str:
    words = _sidecar_words(job)
    if not words:
        return ""
    every = jobtext.on_every_node(beside=True) + " " if job.nodes > 1 else ""
    share, forget = (BESIDE, f"    {FORGET_GPUS}\n") if job.nodes > 1 else ("", "")
    words += ['"$@"'] if job.staging is not None else []
    options = " \\\n        ".join(words)
    return f"""\
# Beside the program: results come back while it runs, and its GPUs are recorded.
{share}run_sidecar() {{
{forget}    exec {every}python3 "$sidecar" run \\
        {options}
}}
# Signals that come before it listens must not end it.
(trap '' USR1 USR2 TERM && run_sidecar) &
sidecar_pid=$!
"""


def _patience(job: BatchJob) -> str:
    if not job.goes_on or job.in_array:
        return ""
    return f"""\
# The job must be back in the queue before its time is over.
if [ "$time_is_short" -eq 1 ] && [ -z "${{reaper:-}}" ]; then
    (sleep {max(30, job.warning // 2)} && kill -TERM "$program" 2> /dev/null) &
    reaper=$!
fi
"""
