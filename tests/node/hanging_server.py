"""A Jupyter server that asks itself for its GPUs once and prints the answer."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
import threading
import time

from jupyter_server.serverapp import ServerApp

from tests.waiting import eventually


def ask(path: str) -> None:
    """Wait for the server, ask for the GPUs, print what came."""
    connection = eventually(lambda: _connected(path))
    began = time.monotonic()
    client = http.client.HTTPConnection("localhost")
    client.sock = connection
    client.request("GET", "/jupyter-hpc/gpus", headers={"Authorization": "token t"})
    answer = client.getresponse()
    body = json.loads(answer.read())
    seconds = time.monotonic() - began
    print(json.dumps({"status": answer.status, "body": body, "seconds": seconds}), flush=True)


def _connected(path: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def main() -> None:
    path = sys.argv[1]
    threading.Thread(target=ask, args=(path,), daemon=True).start()
    asyncio.set_event_loop(asyncio.new_event_loop())
    ServerApp.launch_instance(
        argv=[
            f"--ServerApp.sock={path}",
            "--IdentityProvider.token=t",
            "--ServerApp.jpserver_extensions={'jupyter_hpc': True}",
            "--allow-root",
            "--no-browser",
        ]
    )


if __name__ == "__main__":
    main()
