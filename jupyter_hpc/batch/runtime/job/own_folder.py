"""The folder of a run on the shared disk: made before the program starts, tidied at its end.

The program works in the results folder itself, so that its files are there whatever ends
it. What it was given is taken away again, unless the program has changed it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.entries import as_states, state_of
from jupyter_hpc.batch.runtime.job.folder import Mirror
from jupyter_hpc.batch.runtime.job.folder_plan import FolderPlan
from jupyter_hpc.batch.runtime.job.linked import changed, clock_of, watch
from jupyter_hpc.batch.runtime.log import log

#: Beside the results: what of them are inputs, and what links lead to, until that is compared.
INPUTS = ".inputs.json"
LINKED = ".linked.json"
#: The same between two parts: it was compared at the end of the one before.
_COMPARED = ".compared.json"
#: Names files of the notebook that were linked and are changed.
CHANGED = "CHANGED.txt"


def make_own_folder(plan: FolderPlan, output: Path) -> Path:
    """The working directory; a later part has what the first one was given, as it was left."""
    if (output / INPUTS).exists():
        with contextlib.suppress(FileNotFoundError):
            os.replace(output / _COMPARED, output / LINKED)
        folder = output / "files" / plan.inner
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    begun, clock = time.monotonic(), clock_of(str(output))
    mirror = Mirror(plan, output / "files", [])
    try:
        folder = mirror.run()
        save_inputs(output, mirror, clock)
    except BaseException:  # on a full disk, say; what is no result must not look like one
        _take_away(output / "files", mirror.made)
        raise
    say_made(mirror, time.monotonic() - begun)
    return folder


def save_inputs(place: Path, mirror: Mirror, begun: float, prefix: str = "") -> None:
    """Write down what was put there; the list of inputs last, which says that all is there."""
    _write(place / (prefix + LINKED), watch(mirror.links, begun, mirror.patterns))
    _write(place / (prefix + INPUTS), mirror.made)


def say_made(mirror: Mirror, seconds: float) -> None:
    """One line about the folder, and one about what is missing in it."""
    links = sum(1 for state in mirror.made.values() if state[0] == "link")
    log(
        f"this run works in a folder of its own: {mirror.copied} files copied, {links} linked, "
        f"in {seconds:.1f} s"
    )
    if mirror.left_out:
        log(
            f"{len(mirror.left_out)} file(s) that the notebook writes are not in that folder, "
            f"they are too large to be copied: {', '.join(sorted(mirror.left_out)[:5])}"
        )


def tidy_own_folder(output: Path, keep: bool = False) -> None:
    """Leave the results alone in the folder, and say what was changed outside of it.

    With `keep` a further part goes on there, and needs what this one was given.
    """
    say_changed(output, output)
    if keep:
        with contextlib.suppress(OSError):
            os.replace(output / LINKED, output / _COMPARED)
        return
    _take_away(output / "files", as_states(_read(output / INPUTS)))
    for mark in (INPUTS, LINKED):
        with contextlib.suppress(OSError):
            os.unlink(output / mark)


def _take_away(folder: Path, inputs: dict[str, tuple[Any, ...]]) -> None:
    """Delete what was put into the folder and is as it was then."""
    for name in sorted(inputs, reverse=True):  # what is in a folder comes before the folder
        path = str(folder / name)
        with contextlib.suppress(OSError):
            if inputs[name][0] == "made":
                os.rmdir(path)
            elif state_of(path) == inputs[name]:
                os.unlink(path)


def say_changed(place: Path, output: Path, prefix: str = "") -> None:
    """Name what links lead to and was changed, in the log and in a list for `results`."""
    before = _read(place / (prefix + LINKED))
    if not before:
        return
    found, unfinished = changed(before)
    if unfinished:
        log(
            f"whether this run changed something in {', '.join(unfinished[:3])} is not known: "
            "there are too many files to look at all of them"
        )
    if not found:
        return
    more = f" and {len(found) - 3} more" if found[3:] else ""
    log(
        "files outside of this run's folder were changed while it ran, by it or by others: "
        f"{', '.join(found[:3])}{more}"
    )
    try:
        listed = output / CHANGED
        earlier = listed.read_bytes().splitlines() if listed.exists() else []
        names = [name.encode("utf-8", "surrogateescape") for name in found]
        with open(listed, "ab") as file:
            file.write(b"".join(name + b"\n" for name in names if name not in earlier))
    except OSError as error:
        log(f"their list could not be written: {error}")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_name(path.name + ".draft")
    draft.write_text(json.dumps(content), encoding="utf-8")
    os.replace(draft, path)
