"""The text that decides at the end of a part what becomes of the rest: chains and requeues.

A chain is an array of which one task runs after the other. A run of a sweep that is chained
goes back to the queue instead, because the tasks of its array are the runs.
"""

from __future__ import annotations

from textwrap import indent

from jupyter_hpc.batch.job.model import BatchJob
from jupyter_hpc.batch.runtime.job.progress import MAX_IDLE_PARTS
from jupyter_hpc.slurm import jobtext

#: With this code a program asks for the next part.
GO_ON = 85

_STEP = " " * 4


def begin_text(job: BatchJob) -> str:
    """Before the program: count this part, and do not start it after too many for nothing."""
    if not job.goes_on:
        return ""
    name, known = "part", "part=${part:-$restarted} idle=${idle:-0}"
    before = "restarted=$part\n"
    if job.in_array:  # the number of the task is better known
        name, known, before = "_", "idle=${idle:-0}", ""
    return f"""\
# ---- the parts of this run ----
{before}\
read -r {name} idle <<< "$(python3 "$sidecar" part begin {_folders(job)})"
{known}    # not knowing them is no reason to stop
if [ "$idle" -ge {MAX_IDLE_PARTS} ]; then
    say "part $part is not started: the $idle before it left no newer checkpoint"
    code={GO_ON}
    exit
fi
"""


def _folders(job: BatchJob) -> str:
    """Where checkpoints are looked for: those of scratch are back in the results by then."""
    own = '"$output"/files*' if job.staging is not None else '"$cwd"'
    shared = "--shared " if job.in_notebooks_folder else ""
    return f'--number "$part" {shared}"$output" "$JUPYTER_HPC_CHECKPOINTS" {own}'


def is_done_text(job: BatchJob) -> str:
    """The function that looks for the program's own word that it is done."""
    if not job.goes_on or job.until != "done":
        return ""
    return """\
# The program says that it is done by a file DONE; one of an earlier job does not count.
is_done() {
    local folder
    for folder in "$JUPYTER_HPC_CHECKPOINTS" "$output" "$output/files" "$cwd"; do
        if [ "$folder/DONE" -nt "$run/conversion.json" ]; then return 0; fi
    done
    return 1
}
"""


def decision_text(job: BatchJob) -> str:
    """Decide whether another part follows; $next is that in a word, $rest in a sentence."""
    if not job.goes_on:
        return ""
    again = ""
    if not job.in_array:
        again = f"""\
# Told to end before the limit: somebody cancels the job, or its program has put it back.
if [ "$told_to_end$time_is_short" = 10 ] &&
    {jobtext.is_queued_again('"$this_job"')}; then
    time_is_short=1
fi
"""
    return f"""\
{again}\
# {_RULES[job.until]} {GO_ON}: the program asks for the next part. A time
# limit: go on as well. Any other code is a failure that the next part would only repeat.
if {_wanted(job)}; then
{indent(_another_part(job), _STEP)}\
{_otherwise(job)}\
fi
"""


_RULES = {
    "exit": "Code 0: all is done.",
    "done": "Code 0: all is done, if there is a file DONE.",
    "all": "Code 0: this part has done its share.",
}


def _wanted(job: BatchJob) -> str:
    """The test whether the program is to be started again."""
    early = '"$time_is_short$told_to_end" != 00' if job.in_array else '"$time_is_short" -eq 1'
    tests = [f'[ "$code" -eq {GO_ON} ]', f'{{ [ "$code" -ne 0 ] && [ {early} ]; }}']
    if job.until == "done":
        tests.append('{ [ "$code" -eq 0 ] && ! is_done; }')
    elif job.until == "all":
        tests.append('[ "$code" -eq 0 ]')
    text = " || ".join(tests)
    if not job.in_array:  # somebody cancels it: Slurm would start it again all the same
        text = f'[ "$told_to_end$time_is_short" != 10 ] &&\n    {{ {text}; }}'
    if job.staging is None:
        return text
    # Without the files that did not come back it would do its work again, or the wrong one.
    return f'[ "$copy_code" -eq 0 ] &&\n    {{ {text}; }}'


def _another_part(job: BatchJob) -> str:
    """The next part, none because that was the last one, or a person decides."""
    name = f"'{jobtext.tail(job.chain or 0)}'" if job.in_array else "$this_job"
    follows = f"""\
idle=$(python3 "$sidecar" part end {_folders(job)})
next=goes-on rest="Part $part is over, and part $((part + 1)) goes on from there."
if [ "${{idle:-0}}" -ge {MAX_IDLE_PARTS} ]; then
    next=held rest="Held after part $part: $idle parts left no newer checkpoint than they found."
    rest="$rest Look why the program does not go on; then let it: scontrol release {name}"
fi
"""
    if job.chain is None:
        return follows
    # Where each part does its share, code 0 of the last one is the end of the whole.
    after_all = 'elif [ "$code" -ne 0 ]; then' if job.until == "all" else "else"
    return f"""\
if [ "$part" -lt {job.chain} ]; then
{indent(follows, _STEP)}\
{after_all}
    [ "$code" -ne 0 ] || code={GO_ON}    # it would go on
    next=used-up rest="Part $part was the last one, and the program is not done."
    rest="$rest Its checkpoints stay in the run folder; submit it with more parts."
fi
"""


def _otherwise(job: BatchJob) -> str:
    if not job.in_array:
        return ""
    return f"""\
elif [ "$part" -lt {job.chain} ]; then
    next=cancelled rest="Part $part ended with code $code; the later ones, up to part {job.chain},"
    [ "$code" -ne 0 ] || rest="Part $part ended well; the later ones, up to part {job.chain},"
    rest="$rest were cancelled."
"""


def action_text(job: BatchJob) -> str:
    """Do what was decided, once all that this part leaves is written; say what Slurm refuses."""
    if not job.goes_on:
        return ""
    if job.in_array:  # Slurm itself starts the next part
        last = job.chain or 0
        tail = f"'{jobtext.tail(last)}'"  # for a person
        actions = f"""\
held)
{indent(_hold(jobtext.hold_tail(last), jobtext.cancel_tail(last), f"scancel {tail}"), _STEP)}\
    ;;
cancelled)
    if ! problem=$({jobtext.cancel_tail(last)} 2>&1); then
        rest="Part $part ended with code $code, but the later ones could not be cancelled"
        tell "$rest ($problem). They go on; end them: scancel {tail}"
    fi
    ;;
"""
    else:
        own = '"$this_job"'
        actions = f"""\
goes-on | held)
    if ! {{ {jobtext.requeue(own)}; }}; then
        next=given-up
        rest="Part $part was the last one: the job could not be put back into the queue"
        tell "$rest ($problem). Its checkpoints stay in the run folder; submit it again."
    elif [ "$next" = held ]; then
{indent(_hold(jobtext.hold(own), jobtext.cancel(own), "scancel $this_job"), 2 * _STEP)}\
    fi
    ;;
"""
    return f"""\
tell() {{    # another decision than the one that was noted
    rest=$(printf %s "$1" | tr -d '\\\\"' | tr -s '[:cntrl:]' ' ')
    say "$rest"
    [ "$next" != given-up ] || [ "$code" -ne 0 ] || code={GO_ON}    # it would go on
    note_end
}}
[ -z "$rest" ] || say "$rest"
case $next in
{actions}esac
"""


def _hold(hold: str, cancel: str, by_hand: str) -> str:
    """Let the rest wait; what cannot be held must not run on for nothing."""
    return f"""\
if problem=$({hold} 2>&1); then
    python3 "$sidecar" part held "$output"
else
    rest="Part $part was the last one: $idle parts left no newer checkpoint than they found."
    rest="$rest The rest could not be held ($problem)"
    if problem=$({cancel} 2>&1); then
        next=given-up
        tell "$rest and was cancelled. Its checkpoints stay in the run folder."
    else
        next=goes-on
        tell "$rest, nor cancelled ($problem). It goes on; end it: {by_hand}"
    fi
fi
"""
