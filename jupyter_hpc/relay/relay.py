"""The relay: beside Jupyter on the node, it keeps the connections that the laptop's proxy uses.

    relay.py --serve FOLDER --jupyter SOCKET [--jupyter-pid FILE] [--tcp]   run until SIGTERM
    relay.py --attach FOLDER/relay.sock                          hand over stdin and stdout

FOLDER is private (0700) and holds `relay.secret` (0600, written by whoever starts the relay).
The relay listens on `relay.sock` there; the socket appears when it is ready. A pipe comes
either as a connection to that socket, or as the stdin and stdout of an `--attach`, which are
passed with SCM_RIGHTS, so that no byte goes through the helper. With --tcp, for sites where
nothing else works, a pipe may also be a connection to the TCP port that `relay.port` names; it
is guarded by the secret alone, which neither end tells (see frames.py), and not encrypted inside
the cluster. A stream leads to one of the
targets in targets.py, or to "control:", which answers each line with one line of JSON facts.

Stdlib only, Python 3.8; shipped to the node as one file (see bundle.py).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import resource
import signal
import socket
import stat
import sys

from jupyter_hpc.relay.accept import AcceptedPipe
from jupyter_hpc.relay.descriptors import DescriptorPipe
from jupyter_hpc.relay.frames import BUILD, RELAY_READY, digest
from jupyter_hpc.relay.sessions import Sessions
from jupyter_hpc.relay.targets import peer_uid

#: Linux cuts longer paths, or refuses them.
MAX_SOCKET_PATH_BYTES = 107

#: Pipes are made as large as a user may have them, for fewer switches between processes.
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031

#: Connections that have not said anything yet; more push out the oldest.
_MAX_UNDECIDED = 64

_ATTACH = b"A"


class RelayError(Exception):
    """The relay cannot start; the sentence goes to its log."""


def check_private(folder: str) -> None:
    """RelayError unless `folder` is a real folder of ours that nobody else can enter."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise RelayError(f"{folder} is not a private folder of this user (0700)")


def read_secret(path: str) -> bytes:
    """The digest of the secret; RelayError unless the file is ours alone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise RelayError(f"{path} is not a private file of this user (0600)")
        secret = file.read(4096).strip()
    if len(secret) < 16:
        raise RelayError(f"{path} holds no secret of at least 16 characters")
    return digest(secret)


def lock_folder(folder: str) -> int:
    """The descriptor that proves, while it is open, that no other relay serves the folder."""
    lock = os.open(os.path.join(folder, "relay.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise RelayError(f"another relay serves {folder} already") from None
    return lock


def listen(folder: str) -> socket.socket:
    """The listening socket; it takes the place of one that a killed relay left."""
    path = os.path.join(folder, "relay.sock")
    if len(os.fsencode(path)) + len(".new") > MAX_SOCKET_PATH_BYTES:
        raise RelayError(f"the path {path} is too long for a unix socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.setblocking(False)
    # Made under another name, so that the socket is listened on from the moment it is seen.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + ".new")
    old_mask = os.umask(0o177)
    try:
        listener.bind(path + ".new")
    finally:
        os.umask(old_mask)
    listener.listen(128)
    os.rename(path + ".new", path)
    return listener


def listen_on_tcp(folder: str) -> socket.socket:
    """A TCP port for pipes from the login host; its number is written to `relay.port`.

    The one of a relay that was killed, if it is free: the laptop knows no other.
    """
    path = os.path.join(folder, "relay.port")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setblocking(False)
    # Accepted sockets inherit it; small frames must not wait for the answer to the last one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        with open(path, encoding="ascii") as file:
            listener.bind(("", int(file.read(8))))
    except (OSError, ValueError, OverflowError):
        listener.bind(("", 0))
    listener.listen(16)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{listener.getsockname()[1]}\n")
    os.rename(path + ".new", path)
    return listener


def raise_descriptor_limit() -> None:
    """200 connections of several laptops at once need more than the usual 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Listener:
    """Accepts connections and passed descriptors, and makes an AcceptedPipe of each."""

    def __init__(self, listener: socket.socket, sessions: Sessions) -> None:
        self._loop = asyncio.get_event_loop()
        self._listener = listener
        self._sessions = sessions
        self._undecided: dict[socket.socket, None] = {}  # in the order in which they came
        self._loop.add_reader(listener, self._acceptable)

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for connection in list(self._undecided):
            self._drop(connection)

    def _acceptable(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        local = connection.family == socket.AF_UNIX
        if local and peer_uid(connection) not in (None, os.geteuid(), 0):
            connection.close()
            return
        connection.setblocking(False)
        if not local:
            # It can only be a pipe by itself, whose proxy waits for the challenge.
            self._begin(connection)
            return
        for oldest in list(self._undecided)[:-_MAX_UNDECIDED]:
            self._drop(oldest)
        self._undecided[connection] = None
        self._loop.add_reader(connection, self._first_bytes, connection)
        self._loop.call_later(self._sessions.hello_deadline, self._overdue, connection)

    def _overdue(self, connection: socket.socket) -> None:
        if connection in self._undecided:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._undecided.pop(connection, None)
        self._loop.remove_reader(connection)
        connection.close()

    def _first_bytes(self, connection: socket.socket) -> None:
        """An `--attach` passes two descriptors; anything else is a pipe by itself."""
        try:
            data, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(8))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, ancillary = b"", []
        passed = _passed_descriptors(ancillary)
        if not data or (data[:1] == _ATTACH and len(passed) != 2):
            for descriptor in passed:
                os.close(descriptor)
            self._drop(connection)
            return
        self._undecided.pop(connection, None)
        self._loop.remove_reader(connection)
        if data[:1] == _ATTACH:
            pipe = DescriptorPipe(passed[0], passed[1], self._sessions.buffer)
            AcceptedPipe(self._sessions, pipe, connection).open(b"")
        else:
            for descriptor in passed:
                os.close(descriptor)
            self._begin(connection, data)

    def _begin(self, connection: socket.socket, data: bytes = b"") -> None:
        """The connection itself is a pipe, from which `data` was read already."""
        descriptor = connection.detach()
        pipe = DescriptorPipe(descriptor, descriptor, self._sessions.buffer)
        AcceptedPipe(self._sessions, pipe, None).open(data)


def _passed_descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    passed: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            for start in range(0, len(data) - 3, 4):
                passed.append(int.from_bytes(data[start : start + 4], sys.byteorder))
    return passed


async def serve(folder: str, jupyter: str, pid_file: str | None, tcp: bool) -> None:
    """Run until SIGTERM or SIGINT."""
    check_private(folder)
    secret = read_secret(os.path.join(folder, "relay.secret"))
    raise_descriptor_limit()
    lock = lock_folder(folder)
    sessions = Sessions(secret, jupyter, pid_file)
    # The unix socket comes last: who sees it finds everything else in place.
    listeners = [listen_on_tcp(folder)] if tcp else []
    accepting = [Listener(one, sessions) for one in [*listeners, listen(folder)]]
    stopped = asyncio.Event()
    loop = asyncio.get_event_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    print(f"relay {BUILD} (process {os.getpid()}) serves {jupyter}", file=sys.stderr, flush=True)
    try:
        while not stopped.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stopped.wait(), 60)
            sessions.close_silent_pipes()
    finally:
        for one in accepting:
            one.close()
        sessions.close()
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, "relay.sock"))
        os.close(lock)


def attach(path: str) -> int:
    """Give our stdin and stdout to the relay, and wait until it is done with them."""
    for descriptor in (0, 1):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
        except OSError as error:
            print(f"no relay answers on {path}: {error.strerror}", file=sys.stderr)
            return 3
        os.write(1, RELAY_READY)
        rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1))
        connection.sendmsg([_ATTACH], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        # Only the relay keeps them now, so that closing them there is seen at the other end.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(null, descriptor)
        with contextlib.suppress(OSError):
            while connection.recv(64):
                pass
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="relay.py", description="the node's end of the stream")
    parser.add_argument("--version", action="version", version=BUILD)
    parser.add_argument("--serve", metavar="FOLDER", help="serve laptops on FOLDER/relay.sock")
    parser.add_argument("--jupyter", metavar="SOCKET", help="Jupyter's unix socket")
    parser.add_argument("--jupyter-pid", metavar="FILE", help="holds the id of Jupyter's process")
    parser.add_argument("--tcp", action="store_true", help="also accept pipes on a TCP port")
    parser.add_argument("--attach", metavar="SOCKET", help="give stdin and stdout to the relay")
    options = parser.parse_args(arguments)
    if options.attach:
        return attach(options.attach)
    if not (options.serve and options.jupyter):
        parser.error("either --attach, or --serve with --jupyter")
    try:
        asyncio.run(serve(options.serve, options.jupyter, options.jupyter_pid, options.tcp))
    except (RelayError, OSError) as error:
        print(f"the relay cannot start: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
