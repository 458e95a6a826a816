"""The end of a batch script: results come back and are counted, whatever the cause.

The code of the program is the code of the job, with one exception: a program that
ended well while files of it are missing ends with INCOMPLETE.
"""

from __future__ import annotations

from jupyter_hpc.batch.job.going_on import (
    GO_ON,
    action_text,
    decision_text,
    is_done_text,
)
from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.runtime.job.marks import INCOMPLETE
from jupyter_hpc.slurm import jobtext

#: Slurm's clock and that of the shell may differ by so many seconds.
_CLOCK_SECONDS = 10


def ending_text(job: BatchJob) -> str:
    """The traps of the script, and what it does at its end."""
    variables = " venv=''" if job.environment.build_from is not None else ""
    variables += " copy_code=0 scratch=''" if job.staging is not None else ""
    if job.goes_on:
        part = '"$task"' if job.in_array else f"$(({jobtext.restarts()} + 1))"
        variables += f"\npart={part} next='' rest=''    # what is decided about later parts"
        variables += f"\nthis_job={jobtext.own_id()}" if not job.in_array else ""
    sooner = max(0, job.warning - _CLOCK_SECONDS)
    return f"""\
# ---- the end, whatever its cause ----
program='' sidecar_pid='' code=1 interrupted=0 time_is_short=0 told_to_end=0{variables}

{is_done_text(job)}\
# Slurm warns this shell {job.warning} s or more before the time limit; the program is told.
warned() {{
    interrupted=1 time_is_short=1 warned_at=$SECONDS
    say "the time limit is near"
    [ -n "$program" ] && kill -USR1 "$program" 2> /dev/null
    [ -n "$sidecar_pid" ] && kill -USR1 "$sidecar_pid" 2> /dev/null
}}
ended() {{
    interrupted=1 told_to_end=1
    # The limit comes no sooner than the warning said; before that, somebody cancels the job.
    if [ "$time_is_short" -eq 1 ] && [ $((SECONDS - warned_at)) -lt {sooner} ]; then
        time_is_short=0
    fi
    say "told to end"
    [ -n "$program" ] && kill -TERM "$program" 2> /dev/null
    [ -n "$sidecar_pid" ] && kill -TERM "$sidecar_pid" 2> /dev/null
    [ -n "$program" ] || exit 143
}}
finish() {{
    trap '' USR1 TERM INT    # nothing may interrupt this, and children ignore it as well
    cd "$run" || :    # the working directory may be on scratch, which will be gone
{indent(_stop_sidecar(job))}{indent(_remove_environment(job))}\
{indent(decision_text(job))}{indent(_tidy(job))}{indent(_state(job))}\
    {_is_the_end(job)} && date > "$output/DONE"
{indent(_table(job))}{indent(action_text(job))}{indent(_notify_user(job))}\
    say "ended with code $code"
{indent(_exit(job))}\
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
    [ "$copy_code" -eq 0 ] || say "not all files came back"
elif [ -n "$scratch" ]; then
    {every}python3 "$sidecar" clean "$scratch" "$output"    # staged, but never used
fi
for list in "$output"/files*/MISSING.txt; do    # also that of an earlier part
    [ -e "$list" ] || continue
    say "$list names the files that are missing"
    [ "$code" -ne 0 ] || copy_code={INCOMPLETE}
done
if [ "$code" -eq 0 ] && [ "$copy_code" -ne 0 ]; then code={INCOMPLETE}; fi
"""


def _tidy(job: BatchJob) -> str:
    if not job.isolated:
        return ""
    if not job.goes_on:
        return """\
python3 "$sidecar" tidy "$output"    # the results alone stay in the folder of this run
"""
    return """\
# The results alone stay in the folder of this run, unless another part goes on in it.
case $next in
goes-on | held) python3 "$sidecar" tidy --keep "$output" ;;
*) python3 "$sidecar" tidy "$output" ;;
esac
"""


def _state(job: BatchJob) -> str:
    """How the run ended, for whoever looks later; its last part tells."""
    fields = '"code": %d, "job": "%s", "time_limit": %d, "told_to_end": %d, "time": %d'
    fields += ', "seconds": %d'
    values = '"$code" "$job" "$time_is_short" "$told_to_end" "$(date +%s)" "$SECONDS"'
    before = ""
    if job.goes_on:
        fields += ', "part": %d, "parts": %d, "next": "%s", "rest": "%s", "total": %d'
        values += f' \\\n    "$part" {job.chain or 0} "$next" "$rest" "$((SECONDS + before))"'
        before = """\
# The time of all parts: what those before this one took stands in what they left.
before=$(sed -n 's/.*"total": \\([0-9]*\\).*/\\1/p' "$output/state.json" 2> /dev/null)
"""
    note = f"""\
printf '{{{fields}}}\\n' \\
    {values} > "$output/.state" \\
    && mv "$output/.state" "$output/state.json"
"""
    if not job.goes_on:
        return note
    return f"{before}note_end() {{\n{indent(note)}}}\nnote_end\n"


def _is_the_end(job: BatchJob) -> str:
    """The test whether all is done, and well."""
    more = ' && [ "${next:-cancelled}" = cancelled ]' if job.goes_on else ""
    return f'[ "$code" -eq 0 ]{more}'


def _table(job: BatchJob) -> str:
    if not job.sweep:
        return ""
    return 'python3 "$sidecar" table "$run" || say "the table of the runs was not written"\n'


def _exit(job: BatchJob) -> str:
    if not job.goes_on:
        return 'exit "$code"\n'
    return f"""\
# A part that is followed by another, or asked for one, has not failed.
if [ "$next" = goes-on ] || [ "$code" -eq {GO_ON} ]; then exit 0; fi
exit "$code"
"""


def _notify_user(job: BatchJob) -> str:
    if not job.notify:
        return ""
    runs = len(job.sweep) or 1
    last = '[ "$next" = goes-on ] ||\n    ' if job.goes_on else ""
    return f"""\
# Whoever waits is told; that may take seconds, and never changes how the job ends.
# KILL, because a child of this shell ignores TERM by now.
{last}timeout -s KILL 20 python3 "$sidecar" notify "$run" "$code" \\
        "{jobtext.whole_job()}" {runs} || :
"""


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
