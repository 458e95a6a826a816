"""The parent of every process of the embedded cluster; run as a file, standard library first.

It starts processes when asked over its control socket, reports how each of them
ended, and, when that socket closes (the demo stopped or was killed with -9),
ends everything that belongs to the cluster and removes the short temporary
folder. On Linux it adopts orphans, so that daemons stay its descendants.

    reaper.py FD CONFIG     CONFIG: JSON {"path": sys.path, "marker": ..., "remove": [folders]}
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HEADER = struct.Struct("!I")
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, where the kernel offers it."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_terminal() -> None:
    """Make standard input the controlling terminal; runs in the child before exec."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Reaper:
    """Parent of all processes of the cluster: starts them when asked, reports how each ended,
    and leaves none behind. One loop over the control socket and the signals of children.
    """

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_write, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            # A Ctrl-C in the demo's terminal must not end the one process that cleans up.
            signal.signal(ignored, lambda *_: None)

    def run(self) -> None:
        """Serve until the other end of the control socket is gone."""
        while True:
            ready, _, _ = select.select([self.control.fileno(), self.wake_read], [], [])
            if self.wake_read in ready:
                os.read(self.wake_read, 512)
                self.reap()
            if self.control.fileno() in ready and not self.serve_one():
                return

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        with contextlib.suppress(OSError):
            self.control.sendall(HEADER.pack(len(body)) + body)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.control.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def serve_one(self) -> bool:
        """Handle one request; False when the demo is gone."""
        fds: list[int] = []
        try:
            head, fds, _, _ = socket.recv_fds(self.control, HEADER.size, 3)
            if not head:
                return False
            head += self.receive(HEADER.size - len(head))
            request = json.loads(self.receive(HEADER.unpack(head)[0]))
        except (EOFError, OSError):
            return False
        try:
            self.spawn(request, fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def spawn(self, request: dict[str, Any], fds: list[int]) -> None:
        def file(name: str) -> int:
            index = request[name]
            return subprocess.DEVNULL if index is None else fds[index]

        try:
            child = subprocess.Popen(
                request["argv"],
                executable=request.get("executable"),
                stdin=file("stdin"),
                stdout=file("stdout"),
                stderr=file("stderr"),
                cwd=request["cwd"],
                env=request["env"],
                start_new_session=True,
                restore_signals=True,
                preexec_fn=take_terminal if request.get("terminal") else None,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            number = getattr(error, "errno", None) or 0
            where = getattr(error, "filename", None)
            self.send({"id": request["id"], "errno": number, "error": str(error), "file": where})
            return
        # The loop waits for all children at once, adopted ones included, so Popen must not.
        child.returncode = 0
        self.send({"id": request["id"], "pid": child.pid})

    def reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            # Linux counts the largest resident size in KiB, macOS in bytes.
            kib = used.ru_maxrss if sys.platform.startswith("linux") else used.ru_maxrss // 1024
            self.send(
                {
                    "ended": pid,
                    "status": os.waitstatus_to_exitcode(status),
                    "cpu": used.ru_utime + used.ru_stime,
                    "memory": kib,
                }
            )


def clean_up(config: dict[str, Any], end_all: Callable[..., None]) -> None:
    """End every process of the cluster, then remove what lies outside its folder."""
    end_all(config["marker"], root=os.getpid())
    for folder in config["remove"]:
        for _ in range(3):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(0.05)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    config = json.loads(sys.argv[2])
    adopt_orphans()
    reaper = Reaper(control)
    reaper.send({"ready": os.getpid()})
    # Now, and not when it is needed: the files may be gone by then.
    sys.path[:] = config["path"]
    from jupyter_hpc.demo.processes import end_all

    try:
        reaper.run()
    finally:
        clean_up(config, end_all)


if __name__ == "__main__":
    main()
