"""What all verbs share: access to the services, JSON answers, errors with a fitting status."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar, overload

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, RequestHandler, authenticated

from jupyter_hpc import errors
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.values import encode

#: Where the services hang in the web application's settings.
SERVICES_KEY = "jupyter_hpc_services"

#: A longer body is no request of the dialog, and to read it would stop the event loop.
MAX_BODY_BYTES = 1 << 20

#: The one place that says which error is which status; the first match counts, so
#: narrow classes stand before their bases.
STATUS_OF_ERROR: tuple[tuple[type[errors.HpcError], HTTPStatus], ...] = (
    (errors.UsageError, HTTPStatus.BAD_REQUEST),
    (errors.JobNotFound, HTTPStatus.NOT_FOUND),
    (errors.PermissionRefused, HTTPStatus.FORBIDDEN),
    (errors.SubmitRejected, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.ConversionRefused, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.PreflightFailed, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.AlreadyRunning, HTTPStatus.CONFLICT),
    (errors.ChangedSince, HTTPStatus.CONFLICT),
    (errors.AccountingDisabled, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.SlurmUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.UnreadableAnswer, HTTPStatus.BAD_GATEWAY),
    (errors.SlurmError, HTTPStatus.CONFLICT),
    (errors.CommandMissing, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.CommandTimeout, HTTPStatus.GATEWAY_TIMEOUT),
    (errors.CommandError, HTTPStatus.BAD_GATEWAY),
    (errors.GpuUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
)


T = TypeVar("T")


def _parsed(read: Callable[[str], T], name: str, text: str | None, default: T) -> T:
    try:
        return default if text is None else read(text)
    except ValueError as error:
        raise errors.UsageError(f"{name!r} has to be a number.", "") from error


def _in_words(error: HTTPError) -> str:
    """What tornado or Jupyter says, with its own arguments put in."""
    if error.log_message and error.args:
        return error.log_message % error.args
    return error.log_message or error.reason or str(error)


def status_of(error: errors.HpcError) -> int:
    """The HTTP status that fits this error."""
    for kind, status in STATUS_OF_ERROR:
        if isinstance(error, kind):
            return int(status)
    return int(HTTPStatus.INTERNAL_SERVER_ERROR)


class ErrorAnswers(RequestHandler):
    """Every error is one JSON object {message, hint}, whatever kind of handler it leaves."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Finish with the error in words, with a status that fits."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        if isinstance(error, errors.HpcError):
            self.set_status(status_of(error))
            body = {"message": error.message, "hint": error.hint}
        elif isinstance(error, HTTPError):
            body = {"message": _in_words(error), "hint": ""}
        else:
            body = {
                "message": "The server extension failed on this request.",
                "hint": "The log of the Jupyter server has the details.",
            }
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(body))


class HpcHandler(ErrorAnswers, APIHandler):
    """Base of the REST verbs. Panels poll them, so they are no sign of a busy user."""

    auth_resource = "hpc"
    _track_activity = False
    _expected: errors.HpcError | None = None

    @property
    def services(self) -> Services:
        """The services that the extension app built."""
        services: Services = self.settings[SERVICES_KEY]
        return services

    def reply(self, value: Any) -> None:
        """Finish with `value` as JSON; the answer is about this moment, never cached."""
        self.set_header("Cache-Control", "no-store")
        self.finish(encode(value))

    def compute_etag(self) -> None:
        """Answers are not cached, so hashing megabytes of jobs would be for nothing."""

    def get_json_body(self) -> Any:
        """The body of a request of the dialog, which is short."""
        if len(self.request.body) > MAX_BODY_BYTES:
            raise HTTPError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This request is too long.")
        return super().get_json_body()

    def text(self, name: str) -> str | None:
        """A query argument, None where it is missing or empty."""
        return self.get_query_argument(name, "") or None

    def number(self, name: str, default: float) -> float:
        """A query argument that is a number; UsageError for anything else."""
        return _parsed(float, name, self.text(name), default)

    @overload
    def whole_number(self, name: str, default: int) -> int: ...
    @overload
    def whole_number(self, name: str, default: None) -> int | None: ...
    def whole_number(self, name: str, default: int | None) -> int | None:
        """A query argument that is a whole number; UsageError for anything else."""
        return _parsed(int, name, self.text(name), default)

    def log_exception(self, *exc_info: Any) -> None:
        """Expected errors are answers, not tracebacks in the server's log."""
        if isinstance(exc_info[1], errors.HpcError):
            self._expected = exc_info[1]
        else:
            super().log_exception(*exc_info)

    def _log(self) -> None:
        """A missing GPU that is asked for each second must not fill the server's log."""
        if self._expected is None:
            super()._log()
        else:
            self.log.debug("%s %s: %s", self.request.method, self.request.path, self._expected)


class NoSuchAddress(HpcHandler):
    """Says in our own words that there is nothing here."""

    @authenticated
    @authorized
    def get(self) -> None:
        raise HTTPError(HTTPStatus.NOT_FOUND, "The HPC extension has no such address.")

    post = put = patch = delete = get
