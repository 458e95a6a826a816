"""The relay: beside Jupyter on the node, it keeps the connections that the laptop's proxy uses.

    relay.py --serve FOLDER --jupyter SOCKET [--jupyter-pid FILE] [--tcp KEY]   run until SIGTERM
    relay.py --attach FOLDER/relay.sock                              hand over stdin and stdout

FOLDER is private (0700) and holds `relay.secret` (0600, written by whoever starts the relay).
The relay listens on `relay.sock` there; the socket appears when it is ready. A pipe comes
either as a connection to that socket, or as the stdin and stdout of an `--attach`, which are
passed with SCM_RIGHTS, so that no byte goes through the helper. With --tcp, for sites where
nothing else works, a pipe may also be a connection to a TCP port, inside TLS with the key and
certificate of the private file KEY (see tls.py). `relay.port` has the number of that port, or the
reason why there is none. A stream leads to one of the
targets in targets.py, or to "control:", which answers each line with one line of JSON facts.

Stdlib only, Python 3.9; shipped to the node as one file (see bundle.py).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import sys

from jupyter_hpc.relay.accept import ATTACH, Listener
from jupyter_hpc.relay.frames import BUILD, RELAY_READY, digest
from jupyter_hpc.relay.sessions import Sessions
from jupyter_hpc.relay.tls import TlsServer

#: Linux cuts longer paths, or refuses them.
MAX_SOCKET_PATH_BYTES = 107

#: Pipes are made as large as a user may have them, for fewer switches between processes.
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031

#: Between two attempts to have the TCP port that laptops know.
_PORT_SECONDS = 2.0


class RelayError(Exception):
    """The relay cannot start; the sentence goes to its log."""


def check_private(folder: str) -> None:
    """RelayError unless `folder` is a real folder of ours that nobody else can enter."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise RelayError(f"{folder} is not a private folder of this user (0700)")


def read_private(path: str) -> bytes:
    """What a small file holds; RelayError unless it is ours alone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise RelayError(f"{path} is not a private file of this user (0600)")
        return file.read(1 << 16)


def read_secret(path: str) -> bytes:
    """The digest of the secret; RelayError unless the file is ours alone."""
    secret = read_private(path).strip()
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


def bind_tcp(port: int) -> socket.socket:
    """Listens on that port (0: any) of all addresses; OSError if somebody else has it.

    Of both families with one socket: on the other half of a port anybody could listen, and the
    node's name may mean either. While we listen, Linux gives no part of it to others.
    """
    try:
        return _bind_tcp(socket.AF_INET6, port)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return _bind_tcp(socket.AF_INET, port)  # there is no IPv6 here, for nobody


def _bind_tcp(family: socket.AddressFamily, port: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A relay that was killed leaves connections behind, which would hold the port for minutes.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Accepted sockets inherit it; small frames must not wait for the answer to the last one.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setblocking(False)
        listener.bind(("", port))
        listener.listen(16)
    except OSError:
        listener.close()
        raise
    return listener


class TcpPort:
    """The port for pipes from the login host. Laptops know its number, so it never changes: where
    somebody has taken it from a relay that was killed, it is tried for again and again."""

    def __init__(self, folder: str, key: str, sessions: Sessions) -> None:
        self.listener: Listener | None = None
        self._path = os.path.join(folder, "relay.port")
        self._sessions = sessions
        self._tls: TlsServer | None = None
        self._said = False
        try:
            read_private(key)
            self._tls = TlsServer(key)
        except (OSError, RelayError) as error:
            self._write(f"{error}")
            _log(f"no TCP port is opened: {error}")

    def listens(self) -> bool:
        """Listen if we do not yet. False: to be tried again; True also where it has no sense."""
        if self._tls is None or self.listener is not None:
            return True
        number = self._number()
        try:
            opened = bind_tcp(number)
        except OSError as error:
            if not number:
                self._write(f"{error.strerror}")
            if not self._said:
                _log(f"TCP port {number} cannot be had and is tried for again: {error.strerror}")
            self._said = True
            return False
        self._write(str(opened.getsockname()[1]))
        self.listener = Listener(opened, self._sessions, self._tls)
        if self._said:
            _log(f"TCP port {number} is ours again")
        return True

    def _number(self) -> int:
        """The port of the relay before us; 0 if there was none."""
        try:
            with open(self._path, encoding="ascii") as file:
                return int(file.read(8))
        except (OSError, ValueError):
            return 0

    def _write(self, text: str) -> None:
        descriptor = os.open(self._path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.rename(self._path + ".new", self._path)


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def raise_descriptor_limit() -> None:
    """200 connections of several laptops at once need more than the usual 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(folder: str, jupyter: str, pid_file: str | None, key: str | None) -> None:
    """Run until SIGTERM or SIGINT."""
    check_private(folder)
    secret = read_secret(os.path.join(folder, "relay.secret"))
    raise_descriptor_limit()
    lock = lock_folder(folder)
    sessions = Sessions(secret, jupyter, pid_file)
    tcp = None if key is None else TcpPort(folder, key, sessions)
    if tcp is not None:
        tcp.listens()
    # The unix socket comes last: who sees it finds everything else in place.
    local = Listener(listen(folder), sessions)
    stopped = asyncio.Event()
    loop = asyncio.get_event_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _log(f"relay {BUILD} (process {os.getpid()}) serves {jupyter}")
    try:
        while not stopped.is_set():
            pause = _PORT_SECONDS if tcp is not None and not tcp.listens() else 60.0
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stopped.wait(), pause)
            sessions.close_silent_pipes()
    finally:
        for one in (local, tcp.listener if tcp is not None else None):
            if one is not None:
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
        connection.sendmsg([ATTACH], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
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
    parser.add_argument("--tcp", metavar="KEY", help="also accept pipes on a TCP port, with TLS")
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
