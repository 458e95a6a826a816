"""Small questions to Jupyter through the link: does it answer, is anything busy."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, LaunchFailed, Unreachable, UsageError

#: Longer than the server itself waits for a TensorBoard that starts.
_TENSORBOARD_SECONDS = 150.0

#: Longer than the server takes to write the files of a trial, and to end one.
_TRIAL_SECONDS = 90.0

_STATUS = re.compile(rb"[0-9]{3}")


async def request(
    link: Link, method: str, path: str, token: str = "", timeout: float = 10.0, body: Any = None
) -> tuple[int, Any]:
    """(status, decoded JSON or None) of one request; status 0 if nothing answered.

    `body` is sent as JSON.
    """
    content = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Accept: application/json",
        *([f"Authorization: token {token}"] if token else []),
        *([f"Content-Length: {len(content)}"] if method != "GET" else []),
    ]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    try:
        return _parse(await link.ask("", head + content, timeout))
    except (TimeoutError, asyncio.TimeoutError):
        return 0, None


def _parse(raw: bytes) -> tuple[int, Any]:
    head, _, body = raw.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not _STATUS.fullmatch(words[1]):
        return 0, None
    try:
        if b"transfer-encoding: chunked" in head.lower():
            body = _joined(body)
        return int(words[1]), json.loads(body)
    except (ValueError, RecursionError):
        return int(words[1]), None


def _joined(body: bytes) -> bytes:
    """The chunks of a chunked body as one; ValueError if they are none."""
    chunks, at = [], 0
    while (end := body.find(b"\r\n", at)) >= 0:
        length = int(body[at:end].split(b";")[0], 16)
        if length <= 0:
            break
        chunks.append(body[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
    return b"".join(chunks)


async def wait_until_answers(link: Link, seconds: float) -> None:
    """Return when Jupyter answers; LaunchFailed if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    pause = 0.03
    while (left := deadline - time.monotonic()) > 0:
        # While the link is down, the question waits for it.
        status, _ = await request(link, "GET", "/api", timeout=max(0.1, min(10.0, left)))
        if status:
            return
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, 0.5)
    raise LaunchFailed(
        f"Jupyter was started but did not answer within {seconds:g} s.",
        "`jupyter-hpc logs NAME` shows what it wrote.",
    )


async def busy(link: Link, token: str, states: Sequence[str] = ("busy", "starting")) -> bool:
    """Whether any kernel is in one of these states right now.

    One to which nobody ever connected stays "starting", although it does nothing.
    """
    status, kernels = await request(link, "GET", "/api/kernels", token)
    if status != 200 or not isinstance(kernels, list):
        raise ConnectError("Jupyter did not say what its kernels do.", "It is asked again later.")
    found = [kernel.get("execution_state") for kernel in kernels if isinstance(kernel, dict)]
    return any(state in states for state in found)


async def start_tensorboard(link: Link, token: str, logdir: str) -> dict[str, str]:
    """{"logdir", "socket"} of a TensorBoard in the job; ConnectError with the server's words."""
    status, answer = await request(
        link,
        "POST",
        "/jupyter-hpc/tensorboard",
        token,
        timeout=_TENSORBOARD_SECONDS,
        body={"logdir": logdir},
    )
    fields = answer if isinstance(answer, dict) else {}
    if status == 200 and str(fields.get("socket", "")).startswith("/"):
        return {"logdir": str(fields.get("logdir", logdir)), "socket": str(fields["socket"])}
    if status == 404:
        raise ConnectError(
            "The environment of this session has no jupyter-hpc that can start TensorBoard.",
            "Install or upgrade it there (pip install -U jupyter-hpc), stop the session and "
            "connect again.",
        )
    if status and fields.get("message"):
        kind = UsageError if status == 400 else ConnectError
        raise kind(str(fields["message"]), str(fields.get("hint", "")))
    raise ConnectError(
        "JupyterLab did not say whether TensorBoard runs.", "Try again; its log may say more."
    )


async def ask_trial(
    link: Link, token: str, method: str, body: object = None, trial_id: str = ""
) -> dict[str, Any]:
    """The trial of the server, as it is now; ConnectError with its own words if it refuses.

    GET asks how far it is, POST begins one, DELETE ends that of `trial_id`.
    """
    path = "/jupyter-hpc/trial" + (f"?id={quote(trial_id)}" if trial_id else "")
    status, answer = await request(link, method, path, token, timeout=_TRIAL_SECONDS, body=body)
    if status == 200 and isinstance(answer, dict):
        return answer
    if status == 404:
        raise ConnectError(
            "The jupyter-hpc of this session knows no trials.",
            "Upgrade it there (pip install -U jupyter-hpc), stop the session and connect again.",
        )
    if status and isinstance(answer, dict) and answer.get("message"):
        raise ConnectError(str(answer["message"]), str(answer.get("hint", "")))
    raise Unreachable("JupyterLab did not say how the trial is.", "It is asked again.")
