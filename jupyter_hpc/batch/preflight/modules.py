"""The modules that a cluster offers, as `module avail` lists them there."""

from __future__ import annotations

import re

from jupyter_hpc.batch.job.environment import KNOW_MODULE
from jupyter_hpc.runner import Runner

#: A site without a cache walks through thousands of files for this list.
LIST_SECONDS = 45.0

_LIST = f"""\
{KNOW_MODULE}
command -v module > /dev/null || exit 0
module -t avail 2>&1
"""

#: Headings of the list are paths with a colon at their end, remarks are sentences.
_NAME = re.compile(r"[A-Za-z0-9][\w.+@/:-]*(?<!:)")
_MARK = re.compile(r"\s*(\([\w:,]*\))+$")


async def available_modules(runner: Runner, *, login_shell: bool = False) -> tuple[str, ...]:
    """The names that `module load` takes where the runner runs; none without modules."""
    shell = ["bash", "-l"] if login_shell else ["bash"]
    done = await runner.run([*shell, "-c", _LIST], timeout=LIST_SECONDS)
    return module_names(done.stdout)


def module_names(listed: str) -> tuple[str, ...]:
    """The names in what `module -t avail` prints, without marks such as (default)."""
    lines = (_MARK.sub("", line.strip()).rstrip("/") for line in listed.splitlines())
    return tuple(dict.fromkeys(line for line in lines if _NAME.fullmatch(line)))
