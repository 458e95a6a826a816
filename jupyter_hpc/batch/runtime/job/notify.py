"""The end of a job told by the job itself, where no laptop does it.

The settings are in `notify.json` of the run folder, readable by its owner alone. Whoever
removes that file tells, so that each end is told once. A laptop that is connected touches
a file in the user's state folder every minute: it can show a window, so it comes first.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.log import log

#: The settings of one job's notification, in its run folder; removed by whoever tells.
NOTIFY_FILE = "notify.json"
#: Touched by a connected laptop, in `jupyter-hpc/watched` of the state folder.
LEASE_FILE = ".manager"
#: A laptop that was there within so many seconds is there.
LEASE_SECONDS = 200.0
#: The longest that a webhook and a command may take; the job does not wait longer.
WEBHOOK_SECONDS = 8.0
COMMAND_SECONDS = 8.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A message goes where it was sent to and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post_json(address: str, fields: dict[str, str], timeout: float = WEBHOOK_SECONDS) -> str:
    """Post the fields; what went wrong, or "". No text names the address: it may be a secret."""
    request = urllib.request.Request(  # noqa: S310 (http and https only: the settings check it)
        address,
        json.dumps(fields).encode(),
        {"Content-Type": "application/json", "User-Agent": "jupyter-hpc"},
    )
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except urllib.error.URLError as error:
        reason = error.reason
        known = isinstance(reason, OSError) and reason.strerror
        return str(known or "it was not reached")
    except Exception as error:
        # Whatever a broken server or address raises: the text of it may hold the address.
        return type(error).__name__


def message_environment(fields: dict[str, str]) -> dict[str, str]:
    """The environment of the user's command: ours, and the message by its parts."""
    parts = {"JUPYTER_HPC_" + name.upper(): value for name, value in fields.items()}
    return {**os.environ, **parts}


def tell_end(run: Path, code: int, job: str, runs: int) -> None:
    """Tell of the end of a run, if this is its end and nobody else tells."""
    path = run / NOTIFY_FILE
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return  # told already
    ends = _ends(run, code, runs)
    if len(ends) < runs:
        return  # another run of the sweep is the last one
    if not settings.get("webhook") and not settings.get("command"):
        log("the end is told by a laptop that is connected, now or later")
        return
    if _laptop_is_there():
        log("the end is told by the laptop that is connected")
        return
    held = any(end.held for end in ends)
    try:
        if not held:  # whoever releases it waits for another end
            path.unlink()
    except OSError:
        return
    send(settings, _fields(str(settings.get("notebook", "")), job, ends))


class _End:
    """How one run has ended, or that it waits for a person, and why."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.code = int(state["code"])
        self.held = state.get("next") == "held"
        self.rest = str(state.get("rest") or "")


def _ends(run: Path, code: int, runs: int) -> list[_End]:
    """The runs of a job that have ended; of a single one at least its code is known.

    A run of a sweep that goes on in another part has not.
    """
    output = run / "output"
    folders = [output / str(number) for number in range(1, runs + 1)] if runs > 1 else [output]
    ends = []
    for folder in folders:
        try:
            state = json.loads((folder / "state.json").read_text("utf-8"))
            if runs == 1 or state.get("next") != "goes-on":
                ends.append(_End(state))
        except (OSError, ValueError, KeyError):
            continue
    return ends or ([_End({"code": code})] if runs == 1 else [])


def _fields(notebook: str, job: str, ends: list[_End]) -> dict[str, str]:
    held = [end for end in ends if end.held]
    failed = [end for end in ends if end.code and not end.held]
    title = "is held" if held else "failed" if failed else "is done"
    if len(ends) > 1:
        text = f"{len(ends) - len(failed) - len(held)} of {len(ends)} runs ended well."
        text += f" {len(held)} held: {held[0].rest}" if held else ""
    elif held:
        text = held[0].rest
    else:
        text = f"It ended with code {ends[0].code}." if failed else "It ended well."
    return {
        "event": "job-held" if held else "job-ended",
        "title": f"Job {job} {title}",
        "text": f"{notebook}: {text}",
        "job_id": job,
    }


def _laptop_is_there() -> bool:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    lease = Path(state) / "jupyter-hpc" / "watched" / LEASE_FILE
    try:
        return abs(time.time() - lease.stat().st_mtime) < LEASE_SECONDS
    except OSError:
        return False


def send(settings: dict[str, Any], fields: dict[str, str]) -> None:
    """Tell the user by every way that leads out of a job; what does not work is logged."""
    if settings.get("webhook"):
        problem = post_json(settings["webhook"], fields)
        log("the webhook was told" if not problem else "the webhook was not told: " + problem)
    command = settings.get("command")
    if command:
        message = f"{fields['title']}. {fields['text']}"
        try:
            done = subprocess.run(
                [*command, message],
                env=message_environment(fields),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=COMMAND_SECONDS,
            )
            log(f"the command that was to tell ended with code {done.returncode}")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            log(f"the command that was to tell failed: {type(error).__name__}")
