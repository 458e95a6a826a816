"""Asking the manager of a session, from another process on the same laptop.

    read_status(port)                                what GET /_jupyter-hpc/status says
    call_action(port, secret, "disconnect", {...})   what the action returns

`port` and `secret` come from the session's record. Blocking: commands that use it do nothing else.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

from jupyter_hpc.connect.proxy.control import SECRET_HEADER
from jupyter_hpc.connect.proxy.http import OWN_PREFIX
from jupyter_hpc.errors import ConnectError, Unreachable, UsageError


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
