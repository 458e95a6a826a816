"""A Jupyter server that refuses undecorated endpoints; prints where it is and what we added.

Run as a program: one line of JSON on stdout, then it serves until its stdin ends.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import JupyterServerAuthWarning
from tornado.routing import PathMatches, Rule
from tornado.web import RequestHandler
from traitlets.config import Config

METHODS = ("get", "head", "post", "put", "patch", "delete")


def rules(router: Any) -> list[Rule]:
    """All rules of a router, those of routers inside it too."""
    found: list[Rule] = []
    for rule in router.rules:
        found.extend(rules(rule.target) if hasattr(rule.target, "rules") else [rule])
    return found


def verbs(handler: type[RequestHandler]) -> list[str]:
    """The verbs that a handler answers itself."""
    return [
        name.upper()
        for name in METHODS
        if getattr(handler, name) is not getattr(RequestHandler, name)
    ]


def main() -> None:
    warnings.simplefilter("error", JupyterServerAuthWarning)
    app = ServerApp.instance(
        config=Config({"ServerApp": {"jpserver_extensions": {"jupyter_hpc": True}}})
    )
    app.initialize(
        [
            "--no-browser",
            "--port=0",
            "--ip=127.0.0.1",
            "--ServerApp.allow_root=True",
            "--ServerApp.allow_unauthenticated_access=False",
        ]
    )
    endpoints = [
        {"pattern": rule.matcher.regex.pattern, "verbs": verbs(rule.target)}
        for router in (app.web_app.wildcard_router, app.web_app.default_router)
        for rule in rules(router)
        if isinstance(rule.matcher, PathMatches)
        and isinstance(rule.target, type)
        and rule.target.__module__.startswith("jupyter_hpc.")
    ]
    report = {"port": app.port, "token": app.identity_provider.token, "endpoints": endpoints}
    app.io_loop.add_callback(lambda: print(json.dumps(report), flush=True))
    threading.Thread(target=_stop_with_stdin, args=(app,), daemon=True).start()
    app.start()


def _stop_with_stdin(app: ServerApp) -> None:
    sys.stdin.read()
    app.stop(from_signal=True)


if __name__ == "__main__":
    main()
