"""Files of jobs that are not back from scratch, as the jobs themselves have listed them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_hpc.batch.submit.runs import NOTES
from jupyter_hpc.runner import Runner

#: Prints "JOB LINES LIST" for each list of the jobs $@; a list has a heading.
_LOOK = f"""
for job; do
    run=$(cat -- "{NOTES}/$job") && cd -- "$run/output" || continue
    for list in files*/MISSING.txt [0-9]*/files*/MISSING.txt; do
        [ -e "$list" ] && printf '%s %s %s\\0' "$job" "$(wc -l < "$list")" "$PWD/$list"
    done
done 2> /dev/null
true
"""
_ID = re.compile(r"(?P<job>\d+)(?:_(?P<task>\d+))?")
_OF_TASK = re.compile(r"/output/(?P<task>\d+)/files[^/]*/MISSING\.txt$")


@dataclass(frozen=True)
class Missing:
    """The files of one job or task; no count where the list itself could not be written."""

    job_id: str
    count: int
    lists: tuple[str, ...]

    def __str__(self) -> str:
        if not self.count:
            return (
                f"Not all files of job {self.job_id} are back from scratch, and their list "
                f"{self.lists[0]} could not be written."
            )
        files, are, them = ("file", "is", "it") if self.count == 1 else ("files", "are", "them")
        name = f" and {len(self.lists) - 1} more name" if self.lists[1:] else " names"
        return (
            f"{self.count} {files} of job {self.job_id} {are} not back from scratch; "
            f"{self.lists[0]}{name} {them}."
        )


async def missing_files(runner: Runner, job_ids: Iterable[str]) -> dict[str, Missing]:
    """What is missing, by the id of the job or task; complete and foreign jobs are left out.

    The parts of a chain share their files, so each of them has what the chain misses.
    """
    asked = {job_id: found for job_id in job_ids if (found := _ID.fullmatch(job_id))}
    jobs = sorted({found["job"] for found in asked.values()}, key=int)
    if not jobs:
        return {}
    done = await runner.run(["sh", "-c", _LOOK, "sh", *jobs])
    lists = [entry.split(" ", 2) for entry in done.stdout.split("\0") if entry]
    answer: dict[str, Missing] = {}
    for job_id, found in asked.items():
        own: dict[str, int] = {}
        for job, lines, path in lists:
            task = _OF_TASK.search(path)
            if job == found["job"] and (not task or found["task"] in (None, task["task"])):
                own[path] = max(0, int(lines) - 1)
        if own:
            shared = not any(map(_OF_TASK.search, own))
            name = found["job"] if shared else job_id
            answer[job_id] = Missing(name, sum(own.values()), tuple(own))
    return answer
