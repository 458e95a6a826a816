"""Speaking to the manager of a session, found by its record."""

from __future__ import annotations

from typing import Any

from jupyter_hpc.connect.session.client import call_action, read_status
from jupyter_hpc.connect.session.store import SessionRecord


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
