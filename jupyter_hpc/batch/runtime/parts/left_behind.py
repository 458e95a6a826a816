"""What a part of a run that was killed has left on scratch, fetched when the next one starts there.

It comes to a folder of its own beside the results: a file may be half written, so it replaces
none, and the next part goes on from what was whole.
"""

from __future__ import annotations

import contextlib
import glob
import os
import platform
from pathlib import Path

from jupyter_hpc.batch.runtime.job.copy_back import CopyBack
from jupyter_hpc.batch.runtime.job.own_folder import say_changed
from jupyter_hpc.batch.runtime.job.scratch import OWN_MARK, NoRoom, clean, identity, why_unsafe
from jupyter_hpc.batch.runtime.job.staging import LEFT_ON, Plan, is_ready, read_mark
from jupyter_hpc.batch.runtime.log import log

#: Begins the names of such folders.
_LEFT = "files-left-"


def fetch_left(plan: Plan, output: Path) -> None:
    """Bring what earlier parts left on this node, and delete their scratch folders."""
    node = platform.node()
    for mark in sorted(output.glob(glob.escape(f"{LEFT_ON}{node}+") + "*")):
        try:
            scratch, number = read_mark(mark)
            if not os.path.lexists(scratch):
                log(f"{node}:{scratch}, where an earlier part left files, is gone")
                mark.unlink()
                continue
            if why_unsafe(str(scratch)) or identity(scratch) != number or not is_ready(scratch):
                log(f"{node}:{scratch} is not the folder any more that an earlier part left")
                continue
            if _fetch(plan, scratch, output):
                clean(scratch)
                mark.unlink()
        except (OSError, NoRoom) as error:
            log(f"what an earlier part left on {node} stays there: {error}")


def _fetch(plan: Plan, scratch: Path, output: Path) -> bool:
    node, name = platform.node().split(".")[0], scratch.name.split("-", 3)[-1]
    target = output / f"{_LEFT}{node}-{name}"
    copy = CopyBack(scratch, target, plan)
    copy.take_as_done(sorted(output.glob("files*")))
    count = len(copy.pending())
    back = copy.run(final=True)
    say_changed(scratch, output, OWN_MARK)
    if count:
        log(
            f"{count} file(s) that an earlier part left on {platform.node()} when it was killed "
            f"are in {target}; some may be half written"
        )
    return back


def say_left(output: Path, scratch: Path) -> None:
    """Name the places on nodes where earlier parts than that of `scratch` have left files."""
    places = []
    for mark in sorted(output.glob(glob.escape(LEFT_ON) + "*+*")):
        with contextlib.suppress(OSError):
            node, _, name = mark.name[len(LEFT_ON) :].rpartition("+")
            places += [] if name == scratch.name else [f"{node}:{read_mark(mark)[0]}"]
    if places:
        log(f"parts that were killed left files in {', '.join(places)}")
