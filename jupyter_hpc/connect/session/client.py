"""Asking the manager of a session, from another process on the same laptop.

    ask_manager(record, "status")                    what the session shows of itself
    ask_manager(record, "disconnect", {...})         what the action returns

Blocking: commands that use it do nothing else.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

from jupyter_hpc.connect.proxy.http import OWN_PREFIX, SECRET_HEADER
from jupyter_hpc.connect.session.store import SessionRecord
from jupyter_hpc.errors import ConnectError, Unreachable, UsageError


def ask_manager(
    record: SessionRecord,
    action: str,
    parameters: dict[str, Any] | None = None,
    *,
    timeout: float = 60.0,
) -> dict[str, Any]:
    """Do an action in the manager of `record` and return what it answers.

    `action` "status" only asks. Raises ConnectError with the manager's own words.
    """
    if action == "status":
        status = read_status(record.port, timeout).get("status")
        return status if isinstance(status, dict) else {}
    return call_action(record.port, record.secret, action, parameters, timeout)


def read_status(port: int, timeout: float = 5.0) -> dict[str, Any]:
    """{"open": bool, "view": {...}, "status": {...}} of the session on that port."""
    return _ask(port, "GET", "status", {}, None, timeout)


def call_action(
    port: int,
    secret: str,
    name: str,
    parameters: dict[str, Any] | None = None,
    timeout: float = 60.0,
) -> dict[str, Any]:
    """Have the manager do something; ConnectError with its own words if it refuses.

    Unreachable if it, or what it needs, is away just now.
    """
    body = json.dumps(parameters or {})
    return _ask(port, "POST", f"actions/{name}", {SECRET_HEADER: secret}, body, timeout)


def _ask(
    port: int, method: str, name: str, headers: dict[str, str], body: str | None, timeout: float
) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, OWN_PREFIX + name, body, headers)
        response = connection.getresponse()
        value = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(
            f"The manager of the session on port {port} does not answer.",
            "It may have ended; 'jupyter-hpc status' shows what runs.",
        ) from error
    finally:
        connection.close()
    if not isinstance(value, dict):
        value = {}
    if response.status != 200:
        kind = Unreachable if value.get("transient") else ConnectError
        refused = kind(
            str(value.get("message") or f"The manager answered {response.status}."),
            str(value.get("hint") or ""),
        )
        # Wrong use stays wrong use, whoever noticed it.
        if value.get("exit_code") == UsageError.exit_code:
            refused.exit_code = UsageError.exit_code
        raise refused
    return value
