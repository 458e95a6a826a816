"""A stand-in for TensorBoard and the server that it uses: their public names, one small page.

The tests' environment has no TensorBoard: it is a hundred megabytes with what it needs.
"""

from __future__ import annotations

from pathlib import Path

_PROGRAM = """
import threading

class TensorBoard:
    def __init__(self, plugins, server_class):
        assert plugins == ["a plugin"]
        self._server_class = server_class

    def configure(self, argv):
        assert argv[:2] == ["tensorboard", "--logdir"] and "--load_fast=false" in argv
        self._logdir = argv[2]
        if self._logdir.endswith("broken"):
            raise ValueError("these logs cannot be read")

    def _app(self, environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [("TensorBoard of " + self._logdir).encode()]

    def launch(self):
        server = self._server_class(self._app, None)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.get_url()
"""

_SERVING = """
import socketserver
import wsgiref.simple_server

class WSGIRequestHandler(wsgiref.simple_server.WSGIRequestHandler):
    def setup(self):
        self.client_address = ("local", 0)  # a unix socket has none
        super().setup()

    def log_request(self, *words):
        print(*words)

class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    address_family = 1
    daemon_threads = True

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

def make_server(host, port, app, threaded, request_handler):
    assert host.startswith("unix://") and threaded
    server = _Server(host[len("unix://"):], request_handler)
    server.set_app(app)
    return server
"""


def write_standin(folder: Path) -> None:
    """Packages `tensorboard` and `werkzeug` below `folder`, which then belongs on PYTHONPATH."""
    files = {
        "tensorboard/__init__.py": "",
        "tensorboard/program.py": _PROGRAM,
        "tensorboard/default.py": "def get_plugins():\n    return ['a plugin']\n",
        "werkzeug/__init__.py": "",
        "werkzeug/serving.py": _SERVING,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
