"""A failure that nobody thought of: told to the person, and kept in full in the server's log."""

from __future__ import annotations

import logging

from jupyter_hpc.errors import HpcError


def unexpected(error: Exception) -> HpcError:
    """The sentence that stands for `error`, whose traceback goes to the log."""
    logging.getLogger(__name__).error("a service failed", exc_info=error)
    problem = HpcError(
        "The server extension failed on this request.",
        "The log of the Jupyter server has the details.",
    )
    problem.__cause__ = error
    return problem
