"""The end of a batch script: results come back and are counted, whatever the cause.

The code of the program is the code of the job, with one exception: a program that
ended well while files of it are missing ends with INCOMPLETE.
"""

from __future__ import annotations

from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.runtime.job.staging import INCOMPLETE
from jupyter_hpc.slurm import jobtext


def ending_text(job: BatchJob) -> str:
    """The traps of the script, and what it does at its end."""
    variables = " venv=''" if job.environment.build_from is not None else ""
    variables += " copy_code=0 scratch=''" if job.staging is not None else ""
    variables += " goes_on=0" if job.notify else ""
    return f"""\
# ---- the end, whatever its cause ----
program='' sidecar_pid='' code=1 interrupted=0 time_is_short=0 told_to_end=0{variables}

# Slurm warns this shell {job.warning} s or more before the time limit; the program is told.
warned() {{
    interrupted=1 time_is_short=1
    say "the time limit is near"
    [ -n "$program" ] && kill -USR1 "$program" 2> /dev/null
    [ -n "$sidecar_pid" ] && kill -USR1 "$sidecar_pid" 2> /dev/null
}}
ended() {{
    interrupted=1 told_to_end=1
    say "told to end"
    [ -n "$program" ] && kill -TERM "$program" 2> /dev/null
    [ -n "$sidecar_pid" ] && kill -TERM "$sidecar_pid" 2> /dev/null
    [ -n "$program" ] || exit 143
}}
finish() {{
    trap '' USR1 TERM INT    # nothing may interrupt this, and children ignore it as well
    cd "$run" || :    # the working directory may be on scratch, which will be gone
{indent(_stop_sidecar(job))}{indent(_remove_environment(job))}\
    printf '{{"code": %d, "job": "%s", "time_limit": %d, "told_to_end": %d, "time": %d}}\\n' \\
        "$code" "$job" "$time_is_short" "$told_to_end" "$(date +%s)" > "$output/.state" \\
        && mv "$output/.state" "$output/state.json"
    [ "$code" -eq 0 ] && date > "$output/DONE"
{indent(_tidy(job))}{indent(_afterwards(job))}{indent(_notify_user(job))}\
    say "ended with code $code"
    exit "$code"
}}
trap warned USR1
trap ended TERM INT
trap finish EXIT
"""


def _stop_sidecar(job: BatchJob) -> str:
    if job.staging is None and not job.gpus:
        return ""
    text = """\
if [ -n "$sidecar_pid" ]; then
    # Copy what is left, then stop; said again until it is heard.
    while kill -USR2 "$sidecar_pid" 2> /dev/null; do sleep 0.2; done
    wait "$sidecar_pid"
"""
    if job.staging is None:
        return text + "fi\n"
    every = jobtext.on_every_node() + " " if job.nodes > 1 else ""
    return f"""\
{text}\
    copy_code=$?
    if [ "$copy_code" -ne 0 ] && [ "$copy_code" -ne {INCOMPLETE} ]; then
        # It was killed: do its last work now.
        (run_sidecar --once)
        copy_code=$?
    fi
    [ "$copy_code" -eq 0 ] || say "not all files came back; files/MISSING.txt names them"
elif [ -n "$scratch" ]; then
    {every}python3 "$sidecar" clean "$scratch" "$output"    # staged, but never used
fi
for list in "$output"/files*/MISSING.txt; do    # also that of an earlier part
    if [ "$code" -eq 0 ] && [ -e "$list" ]; then copy_code={INCOMPLETE}; fi
done
if [ "$code" -eq 0 ] && [ "$copy_code" -ne 0 ]; then code={INCOMPLETE}; fi
"""


def _tidy(job: BatchJob) -> str:
    if not job.isolated:
        return ""
    return """\
python3 "$sidecar" tidy "$output"    # the results alone stay in the folder of this run
"""


def _afterwards(job: BatchJob) -> str:
    """What happens to the rest of a chain, to a job that is not done, or to a sweep's table."""
    if job.sweep:
        return 'python3 "$sidecar" table "$run" || say "the table of the runs was not written"\n'
    if job.chain:
        return f"""\
# Code 0: all is done. 85: the program asks for the next part. A time limit: go on as
# well. Any other code is a failure that the next part would only repeat.
early=$((time_is_short + told_to_end))
if {_goes_on(job, '"$early" -gt 0')}; then
    say "the next part of the chain goes on from here"
{_going_on(job)}else
{indent(jobtext.cancel_tail(job.chain))}fi
"""
    if job.requeue:
        return f"""\
if {_goes_on(job, '"$time_is_short" -eq 1')}; then
    say "back to the queue, to go on from here"
{_going_on(job)}{indent(jobtext.requeue())}fi
"""
    return ""


def _going_on(job: BatchJob) -> str:
    """This is not the end that somebody waits for."""
    return "    goes_on=1\n" if job.notify else ""


def _notify_user(job: BatchJob) -> str:
    if not job.notify:
        return ""
    runs = len(job.sweep) or 1
    return f"""\
# Whoever waits is told; that may take seconds, and never changes how the job ends.
# KILL, because a child of this shell ignores TERM by now.
[ "$goes_on" -eq 1 ] ||
    timeout -s KILL 20 python3 "$sidecar" notify "$run" "$code" \\
        "{jobtext.whole_job()}" {runs} || :
"""


def _goes_on(job: BatchJob, early: str) -> str:
    """The test whether the program is to be started again, after a code other than 0."""
    text = f'[ "$code" -eq 85 ] || {{ [ "$code" -ne 0 ] && [ {early} ]; }}'
    if job.staging is None:
        return text
    # Without the files that did not come back it would do its work again, or the wrong one.
    return f'[ "$copy_code" -eq 0 ] &&\n    {{ {text}; }}'


def _remove_environment(job: BatchJob) -> str:
    if job.environment.build_from is None:
        return ""
    if job.nodes > 1:
        every = jobtext.on_every_node()
        return f'[ -z "$venv" ] || [ "$told_to_end" -eq 1 ] || {every} rm -rf -- "$venv"\n'
    return '[ -z "$venv" ] || rm -rf -- "$venv"\n'


def indent(text: str) -> str:
    """The lines as the body of a function or a branch."""
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
