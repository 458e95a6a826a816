"""What a Jupyter server and its Python are; shipped to the cluster.

    examine_server.py FOLDER SESSION SECONDS

asks the server behind FOLDER/jupyter.sock, which may take SECONDS to answer, and prints
`key=value` lines: versions, whether it answers, and whether the extension of jupyter-hpc does.
Runs on any Python that Jupyter runs on; imports nothing of ours.
"""

import http.client
import platform
import socket
import sys
import time
from importlib import metadata


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        # By name: the laptop's side is checked for systems that lack it, where this never runs.
        self.sock = socket.socket(getattr(socket, "AF_UNIX"), socket.SOCK_STREAM)  # noqa: B009
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def _status(path: str, address: str, token: str) -> int:
    connection = _Connection(path)
    try:
        connection.request("GET", address, headers={"Authorization": "token " + token})
        return connection.getresponse().status
    finally:
        connection.close()


def _server_path(session: str) -> "list[str]":
    """Where modules and environment lines have the server look for packages (PYTHONPATH)."""
    try:
        with open(session + "/address") as file:
            told = dict(line.rstrip("\n").partition("=")[::2] for line in file)
        with open("/proc/" + told["jupyter_pid"] + "/environ", "rb") as file:
            words = file.read().split(b"\0")
    except (OSError, KeyError):
        return []
    found = [word[11:].decode() for word in words if word.startswith(b"PYTHONPATH=")]
    return [folder for folder in ":".join(found).split(":") if folder]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def main() -> None:
    folder, session, seconds = sys.argv[1:4]
    sys.path[:0] = _server_path(session)
    print("python=" + platform.python_version())
    print("jupyterlab=" + _version("jupyterlab"))
    print("jupyter_hpc=" + _version("jupyter-hpc"))
    with open(session + "/token") as file:
        token = file.read().strip()
    path, deadline = folder + "/jupyter.sock", time.monotonic() + float(seconds)
    while True:
        try:
            status = _status(path, "/api", token)
            break
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > deadline:
                print("silent=" + str(error).replace("\n", " "))
                return
            time.sleep(0.1)
    print(f"answered={status}")
    print(f"extension={_status(path, '/jupyter-hpc/session', token)}")


if __name__ == "__main__":
    main()
