"""Files of jobs that are not back from scratch, as the jobs themselves have listed them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass

from jupyter_hpc.batch.runtime.job.marks import MISSING
from jupyter_hpc.batch.runtime.job.staging import LEFT_ON
from jupyter_hpc.batch.submit.runs import NOTES
from jupyter_hpc.runner import Runner

#: Prints "JOB FILES LIST\0WHY\0" for each list of the jobs $@, with the reason of its first
#: row. A list has a heading; one that is empty could not be written. A job that was killed may
#: have brought a file after it wrote that it had not: such rows do not count. "JOB -1 PLACE"
#: stands for files on a node that nobody has counted: a mark says where they are until all of
#: them are back.
_LOOK = f"""
rows() {{
    read -r heading
    while IFS='\t' read -r name why where state; do
        [ "$why" = 'not copied yet' ] && [ -n "$state" ] &&
            [ "$(stat -c '%s %.9Y' -- "$1/$name")" = "$state" ] ||
            printf '%s\\n' "${{why:-unknown}}"
    done
}}
for job; do
    run=$(cat -- "{NOTES}/$job") && cd -- "$run/output" || continue
    for list in files*/{MISSING} [0-9]*/files*/{MISSING}; do
        [ -e "$list" ] || continue
        why=$(rows "${{list%/*}}" < "$list") count=0
        [ -z "$why" ] || count=$(printf '%s\\n' "$why" | wc -l)
        [ "$count" -gt 0 ] || [ ! -s "$list" ] &&
            printf '%s %s %s\\0%s\\0' "$job" "$count" "$PWD/$list" "$(printf %s "$why" | head -n 1)"
    done
    for mark in {LEFT_ON}* [0-9]*/{LEFT_ON}*; do
        [ -e "$mark" ] || continue
        printf '%s -1 %s:%s\\0\\0' "$job" "$PWD/${{mark%+*}}" "$(head -n 1 -- "$mark")"
    done
done 2> /dev/null
true
"""
_ID = re.compile(r"(?P<job>\d+)(?:_(?P<task>\d+))?")
_OF_TASK = re.compile(r"/output/(?P<task>\d+)/(?:files[^/]*/MISSING\.txt$|\.scratch-)")
_MARK = re.compile(rf"/{re.escape(LEFT_ON)}(?P<place>[^/:]+:.*)$", re.S)


@dataclass(frozen=True)
class Missing:
    """The files of one job or task; no count where the list itself could not be written."""

    job_id: str
    count: int
    lists: tuple[str, ...]
    #: Places on nodes where files of a job that was killed are left, as `node:folder`.
    places: tuple[str, ...] = ()
    #: Why the first of them is not back.
    why: str = ""

    def __str__(self) -> str:
        if not self.lists:
            return (
                f"Job {self.job_id} ended before all of its files were back from scratch; what is "
                f"missing was left in {', '.join(self.places)}."
            )
        if not self.count:
            return (
                f"Not all files of job {self.job_id} are back from scratch, and their list "
                f"{self.lists[0]} could not be written."
            )
        files, are, them = ("file", "is", "it") if self.count == 1 else ("files", "are", "them")
        name = f" and {len(self.lists) - 1} more name" if self.lists[1:] else " names"
        why = f" ({self.why})" if self.why else ""
        return (
            f"{self.count} {files} of job {self.job_id} {are} not back from scratch{why}; "
            f"{self.lists[0]}{name} {them}."
        )


async def missing_files(
    runner: Runner, job_ids: Iterable[str], over: Container[str] = ()
) -> dict[str, Missing]:
    """What is missing, by the id of the job or task; complete and foreign jobs are left out.

    The parts of a chain share their files, so each of them has what the chain misses. Only
    of jobs that are `over` it is said that files are still on a node.
    """
    asked = {job_id: found for job_id in job_ids if (found := _ID.fullmatch(job_id))}
    jobs = sorted({found["job"] for found in asked.values()}, key=int)
    if not jobs:
        return {}
    done = await runner.run(["sh", "-c", _LOOK, "sh", *jobs])
    fields = done.stdout.split("\0")
    lists = [
        (*entry.split(" ", 2), why) for entry, why in zip(fields[::2], fields[1::2], strict=False)
    ]
    answer: dict[str, Missing] = {}
    for job_id, found in asked.items():
        own: dict[str, int] = {}
        places: list[str] = []
        reason = ""
        name = found["job"]
        for job, lines, path, why in lists:
            task = _OF_TASK.search(path)
            if job != found["job"] or (task and found["task"] not in (None, task["task"])):
                continue
            if mark := _MARK.search(path):
                places += [mark["place"]] if job_id in over else []
            else:
                own[path] = int(lines)
                reason = reason or why
            name = job_id if task else name
        if own or places:
            answer[job_id] = Missing(name, sum(own.values()), tuple(own), tuple(places), reason)
    return answer
