"""A trial from the laptop in a session that is open: no queue, and the GPUs that are there."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from jupyter_hpc.batch.job.files import stem
from jupyter_hpc.batch.submit.choices import Choices
from jupyter_hpc.batch.submit.snapshot import create_run_folder
from jupyter_hpc.batch.submit.submit import SubmitOptions
from jupyter_hpc.batch.trial.here import Progress
from jupyter_hpc.batch.trial.job import remove_trial
from jupyter_hpc.batch.trial.measured import Measured, TrialFailed
from jupyter_hpc.batch.trial.plan import PLAN, Trial
from jupyter_hpc.cli.hosts import Host, sessions_to
from jupyter_hpc.cli.job_upload import sending
from jupyter_hpc.cli.trial_jobs import Teller
from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import SessionRecord
from jupyter_hpc.errors import ConnectError, HpcError, Unreachable
from jupyter_hpc.text import printable

_LOOK_SECONDS = 1.0
#: A session that is away for longer takes its trial along.
_MAX_SILENCE_SECONDS = 120.0
_ASK_SECONDS = 100.0


async def in_open_session(
    trial: Trial, choices: Choices, options: SubmitOptions, host: Host
) -> Measured | None:
    """What a session of this laptop measures; None, and it is said why, where none can."""
    if host.profile is None or choices.environment is not None:
        return None  # another Python than the session's: the job has it
    for record in await asyncio.to_thread(sessions_to, host.profile):
        folder = f"{trial.job.run_dir}-{secrets.token_hex(2)}"
        name = f"{stem(trial.job.notebook)}.ipynb"
        await create_run_folder(host.runner, folder, _files(trial, name), sending(host))
        request = {**_request(trial, choices, options), "path": f"{folder}/work/{name}"}
        wanted = {"epochs": trial.wanted.epochs, "seconds": int(trial.wanted.seconds)}
        begun: dict[str, Any] = {}
        try:
            try:
                begun = await _ask(record, "POST", body={"request": request, **wanted})
            except ConnectError as error:
                _say(f"Not in the session {record.cluster}: {error.message}")
                continue
            _say(f"It runs in the session {record.cluster}; Ctrl-C ends it.")
            return await _watched(record, str(begun["id"]))
        finally:
            await asyncio.shield(_ended(record, str(begun.get("id", "")), host, folder))
    return None


def _files(trial: Trial, name: str) -> dict[str, bytes]:
    """The notebook with what it needs, as they lie side by side on the laptop."""
    files = {
        path.replace("modules/", "work/", 1) if path.startswith("modules/") else path: data
        for path, data in trial.files.items()
        if path.startswith(("modules/", "work/"))
    }
    # What remove_trial knows a trial's folder by.
    return {**files, f"work/{name}": trial.files[name], PLAN: trial.files[PLAN]}


def _request(trial: Trial, choices: Choices, options: SubmitOptions) -> dict[str, Any]:
    """What the dialog would send for the same job."""
    request = {
        key: value
        for key in ("gpus", "gpu_type", "nodes", "tasks", "tasks_per_node", "cpus", "time")
        if (value := getattr(options.request, key)) is not None
    }
    return {
        "parameters": {name: str(value) for name, value in trial.job.parameters.items()},
        "request": request,
        **({"skip_invalid": True} if choices.skip_invalid else {}),
    }


async def _watched(record: SessionRecord, trial_id: str) -> Measured:
    teller, heard = Teller(), time.monotonic()
    while True:
        try:
            now = await _ask(record, "GET")
            heard = time.monotonic()
        except Unreachable as error:
            if time.monotonic() - heard > _MAX_SILENCE_SECONDS:
                raise TrialFailed(
                    f"The session {record.cluster} has been away for too long, and the trial ends "
                    f"with that. {error.message}",
                    "Try it again when the session is back.",
                ) from error
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        if now.get("id") != trial_id:
            raise TrialFailed(
                "The server of the session was started again, and the trial ended with it.",
                "Try it again.",
            )
        if now["state"] != "running":
            return _measured(now)
        known = {key: value for key, value in now["progress"].items() if key in _PROGRESS}
        teller.progress(replace(Progress(), **known))
        await asyncio.sleep(_LOOK_SECONDS)


_PROGRESS = frozenset(("run", "runs", "epochs", "epoch", "seconds", "memory", "gpu_memory"))


def _measured(now: Mapping[str, Any]) -> Measured:
    if now.get("result"):
        return Measured(**now["result"]["measured"])
    problem = now.get("problem") or {"message": "The trial was ended from elsewhere.", "hint": ""}
    raise TrialFailed(str(problem["message"]), str(problem["hint"]))


async def _ended(record: SessionRecord, trial_id: str, host: Host, folder: str) -> None:
    """Nothing of it runs or lies there any more, or it is said."""
    if trial_id:
        try:
            await _ask(record, "DELETE", id=trial_id)
        except ConnectError as error:
            _say(
                f"Whether the trial is over could not be heard: {error.message} The server ends it "
                "when nobody has asked for it for some minutes."
            )
    removed = False
    with contextlib.suppress(HpcError):
        removed = await remove_trial(host.runner, folder)
    if not removed:
        _say(f"The files of the trial are left in {folder} on the cluster.")


async def _ask(record: SessionRecord, method: str, **more: object) -> dict[str, Any]:
    asked = {"method": method, **more}
    return await asyncio.to_thread(ask_manager, record, "trial", asked, timeout=_ASK_SECONDS)


def _say(text: str) -> None:
    click.echo(printable(text), err=True)
