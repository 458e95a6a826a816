"""The proxy's own pages: the status page, the status as JSON, and actions.

    GET  /_jupyter-hpc/               the page
    GET  /_jupyter-hpc/status         {"open": bool, "view": {...}, "status": {...}}; an open tab
                                      adds ?tab=NAME, of its own making, and is waited for at the
                                      end of the session (tabs.py)
    POST /_jupyter-hpc/tab            {"secret": …}: that of the page, for the tab of JupyterLab
    POST /_jupyter-hpc/actions/NAME   a JSON object of parameters; needs a secret

Requests must be made to our own name and port, and not by a page of another origin. An action
needs a secret in a header that no foreign page can send. The 0600 session record holds the one
for all actions, for the commands of this user. The page holds another, for its buttons only:
JupyterLab is of the same origin, so whatever script the cluster sends may read it, and must
not be able to make this computer read a file or open a port. The page holds it only for the
user who runs the proxy, not for others who are logged in to the same computer. JupyterLab's own
tab, which outlives its server, asks for it by a POST, with which browsers name the origin: no
document but one of this very origin gets it, not even a sandboxed one.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jupyter_hpc.connect.proxy import page
from jupyter_hpc.connect.proxy.http import (
    OWN_PREFIX,
    SECRET_HEADER,
    Head,
    answer,
    json_answer,
    origin_allowed,
    refusal,
)
from jupyter_hpc.connect.proxy.peer import Owner
from jupyter_hpc.connect.proxy.tabs import Tabs
from jupyter_hpc.errors import HpcError
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 1 << 16

#: After which a program that got 503 may ask again.
RETRY_AFTER_SECONDS = 2

Status = Callable[[], Mapping[str, Any]]
Action = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]


class Control:
    """Answers what is asked of the proxy itself, and in Jupyter's place while it is not there."""

    def __init__(
        self, status: Status, actions: Mapping[str, Action], secret: str, tabs: Tabs
    ) -> None:
        self._status = status
        self._tabs = tabs
        self._actions = actions
        self._secret = secret
        self._page_secret = secrets.token_urlsafe(32)
        self._running: set[asyncio.Future[Mapping[str, Any]]] = set()

    def page(self, head: Head, owner: Owner) -> bytes:
        """The status page, for any address.

        The secret, and with it the buttons, is only for whoever is known to be this user.
        """
        if owner == "other":
            return refusal(403, "This port belongs to another user of this computer.")
        actions = self._actions.keys() if owner == "me" else ()
        shown = page.view(self._status(), actions, time.time())
        body, headers = page.render(shown, self._page_secret if owner == "me" else "")
        content_type = "text/html; charset=utf-8"
        return answer(200, body, content_type, headers, head_only=head.method == "HEAD")

    def unavailable(self, head: Head, status: int = 503) -> bytes:
        """For a program while JupyterLab is not there."""
        text = printable(str(self._status().get("text") or "")) or "JupyterLab is not there yet."
        return json_answer(
            status,
            {"message": text, "reason": None},
            {"Retry-After": str(RETRY_AFTER_SECONDS)},
            head_only=head.method == "HEAD",
        )

    async def answer(
        self, head: Head, body: bytes, port: int, owner: Owner, *, is_open: bool
    ) -> bytes:
        """Answer a request below our own prefix."""
        name = head.path[len(OWN_PREFIX) :]
        if owner == "other":
            _log.warning("%s %s refused: another user asks", head.method, head.path)
            return refusal(403, "This port belongs to another user of this computer.")
        if name == "":
            if head.method not in ("GET", "HEAD"):
                return refusal(405, "This page can only be read.")
            return self.page(head, owner)
        if not origin_allowed(head, port):
            _log.warning("%s %s refused: a page of another site asks", head.method, head.path)
            return refusal(403, "Requests of other sites are refused.")
        if name == "status":
            return self._answer_status(head, owner, is_open)
        if name == "tab":
            return self._answer_tab(head, owner)
        if name.startswith("actions/"):
            return await self._act(head, name[len("actions/") :], body)
        return refusal(404, "There is no such page.")

    def _answer_status(self, head: Head, owner: Owner, is_open: bool) -> bytes:
        if head.method not in ("GET", "HEAD"):
            return refusal(405, "The status can only be read.")
        status = self._status()
        actions = self._actions.keys() if owner == "me" else ()
        shown = page.view(status, actions, time.time())
        if owner != "other":
            self._tabs.asked(head.target, str(status.get("text") or ""))
        value = {"open": is_open, "view": shown, "status": dict(status)}
        return json_answer(200, value, head_only=head.method == "HEAD")

    def _answer_tab(self, head: Head, owner: Owner) -> bytes:
        """The page's secret for the tab; the origin has been found to be ours where it is named."""
        if head.method != "POST":
            return refusal(405, "The secret is asked for with POST.")
        if "origin" not in head.headers:
            return refusal(403, "Only a page of this port gets its secret.")
        return json_answer(200, {"secret": self._page_secret if owner == "me" else ""})

    def _allowed(self, given: str, name: str) -> bool:
        known = [self._secret, *([self._page_secret] if name in page.ACTIONS else [])]
        raw = given.encode("latin-1")
        return any(hmac.compare_digest(raw, secret.encode("latin-1")) for secret in known)

    async def _act(self, head: Head, name: str, body: bytes) -> bytes:
        if head.method != "POST":
            return refusal(405, "Actions are asked for with POST.")
        if not self._allowed(head.headers.get(SECRET_HEADER.lower(), ""), name):
            _log.warning("action %s refused: the secret is missing or wrong", name)
            return refusal(403, "The secret of this session is missing or wrong.")
        action = self._actions.get(name)
        if action is None:
            return refusal(404, f"There is no such action; known are {', '.join(self._actions)}.")
        try:
            parameters = json.loads(body or b"{}")
        except ValueError:
            parameters = None
        if not isinstance(parameters, dict):
            return refusal(400, "The parameters are not a JSON object.")
        # Not ended by a page that is closed while it is under way.
        running = asyncio.ensure_future(action(parameters))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            return json_answer(200, dict(await asyncio.shield(running)))
        except HpcError as error:
            problem = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
            return json_answer(409, {**problem, "transient": error.transient})
        except Exception:
            _log.exception("the action %s failed", name)
            return refusal(500, "It failed for a reason that is in the log.")
