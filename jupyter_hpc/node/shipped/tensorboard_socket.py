"""TensorBoard on a unix socket: others on the node can reach no port of it.

    tensorboard_socket.py SOCKET LOGDIR

Says "ready" on stdout when it answers, and ends when its stdin does: with the Jupyter server
that started it, whatever ends that. Uses TensorBoard's public interface, and werkzeug, which
TensorBoard needs itself; imports nothing of ours.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any


def server_class(path: str) -> type:
    """What `tensorboard.program.TensorBoard` takes as its server_class, on a unix socket."""
    serving = importlib.import_module("werkzeug.serving")

    class Quiet(serving.WSGIRequestHandler):  # type: ignore[misc, name-defined]
        def log_request(self, *words: Any) -> None:
            """A browser asks every few seconds: that is no news."""

    class SocketServer:
        def __init__(self, app: Any, flags: Any) -> None:
            address = f"unix://{path}"
            made = serving.make_server(address, 0, app, threaded=True, request_handler=Quiet)
            self.serve_forever = made.serve_forever

        def get_url(self) -> str:
            return f"unix://{path}"

    return SocketServer


def main() -> None:
    path, logdir = sys.argv[1:3]
    os.umask(0o077)
    program = importlib.import_module("tensorboard.program")
    plugins = importlib.import_module("tensorboard.default").get_plugins()
    application = program.TensorBoard(plugins, server_class=server_class(path))
    # The fast loader is a process of its own that listens on a TCP port without a password.
    application.configure(argv=["tensorboard", "--logdir", logdir, "--load_fast=false"])
    # Not main(): it also notes the process in a folder of /tmp that all users share.
    application.launch()
    print("ready", flush=True)
    sys.stdin.read()
    # At once: the threads that read event files would be waited for.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
