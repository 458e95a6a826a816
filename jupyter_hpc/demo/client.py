"""What stands behind every command of the embedded cluster; run as a file, standard library only.

    client.py SOCKET PROGRAM [ARGUMENT...]

It tells the controller program, arguments, folder and environment, and then is
the controller's hands: it prints what it is told to, passes standard input on
when asked, reports signals, and ends with the code it is given. If the
controller goes away, the command ends.

The greeting is one block of NUL-separated words; then both sides send frames of
one type byte, a length and a body:
    to the client     o stdout, e stderr, r one more block of stdin, c run this, x end with code
    to the controller i a block of stdin (empty: its end), g a signal, d the command's code
`connect HOST` instead hands the socket itself, now speaking SSH, to ssh's ProxyUseFdpass.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys

FRAME = struct.Struct("!cI")
LENGTH = struct.Struct("!I")
#: The commands that stay and must tell the controller about signals.
WATCHES_SIGNALS = ("salloc", "srun", "sbatch")
REPORTED_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
UNREACHABLE = "Unable to contact slurm controller (connect failure)"


def greeting(program: str, arguments: list[str]) -> bytes:
    """Who asks, from where and with which environment."""
    environment = [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]
    words = [program, os.getcwd(), str(os.getpid()), str(len(arguments)), *arguments]
    body = b"\0".join([os.fsencode(word) for word in words] + environment)
    return LENGTH.pack(len(body)) + body


def write_all(fd: int, data: bytes) -> None:
    """Write everything; a reader that is gone is no error, the step goes on."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])
        except OSError:
            return


def hand_over(connection: socket.socket) -> int:
    """Give the socket to the ssh that started us, which waits for it on our stdout."""
    if connection.recv(1) != b"+":
        sys.stderr.write("demo-connect: no such host\n")
        return 1
    with socket.socket(fileno=os.dup(1)) as parent:
        socket.send_fds(parent, [b"\0"], [connection.fileno()])
    return 0


class Client:
    """One command of Slurm on a host of the demo: what the controller does reaches this
    process's terminal, files and signals through it.
    """

    def __init__(self, connection: socket.socket, wake: int) -> None:
        self.connection = connection
        self.wake = wake
        self.received = bytearray()
        self.to_send = bytearray()
        self.credits = 0
        self.stdin_open = True
        self.code: int | None = None

    def queue(self, kind: bytes, body: bytes = b"") -> None:
        self.to_send += FRAME.pack(kind, len(body)) + body

    def run(self) -> int:
        """Serve frames until the controller names the exit code."""
        self.connection.setblocking(False)
        while self.code is None:
            reads = [self.connection.fileno(), self.wake]
            # Read stdin only when a block is wanted: until then its writer has to wait.
            if self.credits and not self.to_send:
                reads.append(0)
            writes = [self.connection] if self.to_send else []
            ready, writable, _ = select.select(reads, writes, [])
            if writable:
                sent = self.connection.send(self.to_send)
                del self.to_send[:sent]
            if self.wake in ready:
                for number in os.read(self.wake, 64):
                    self.queue(b"g", bytes([number]))
            if 0 in ready:
                self.pass_stdin()
            if self.connection.fileno() in ready and not self.take():
                return 1
        return self.code

    def pass_stdin(self) -> None:
        try:
            data = os.read(0, 262144)
        except OSError:
            data = b""
        self.queue(b"i", data)
        self.credits = self.credits - 1 if data else 0
        self.stdin_open = bool(data)

    def take(self) -> bool:
        """Take what came; False when the controller is gone."""
        try:
            data = self.connection.recv(1 << 20)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        self.received += data
        while len(self.received) >= FRAME.size:
            kind, size = FRAME.unpack_from(self.received)
            if len(self.received) < FRAME.size + size:
                break
            body = bytes(self.received[FRAME.size : FRAME.size + size])
            del self.received[: FRAME.size + size]
            self.handle(kind, body)
        return True

    def handle(self, kind: bytes, body: bytes) -> None:
        if kind == b"o":
            write_all(1, body)
        elif kind == b"e":
            write_all(2, body)
        elif kind == b"r":
            self.credits += self.stdin_open
        elif kind == b"c":
            self.queue(b"d", str(run_here(body)).encode())
        elif kind == b"x":
            self.code = int(body)


def run_here(body: bytes) -> int:
    """Run the command of a salloc here, with the variables of the allocation added."""
    import subprocess

    words = [os.fsdecode(word) for word in body.split(b"\0")]
    count = int(words[0])
    argv = words[1 : 1 + count]
    added = dict(word.split("=", 1) for word in words[1 + count :] if word)
    try:
        code = subprocess.call(argv, env={**os.environ, **added})
    except OSError as error:
        sys.stderr.write(f"salloc: error: Unable to exec {argv[0]}: {error.strerror}\n")
        return 127
    return 128 - code if code < 0 else code


def main() -> int:
    path, program, *arguments = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX)
    # Before the controller knows of us: whoever sees the job may signal this process.
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    try:
        connection.connect(path)
        if program in WATCHES_SIGNALS:
            # Also where the shell has them ignored: srun waits for them all the same.
            for number in REPORTED_SIGNALS:
                signal.signal(number, lambda *_: None)
        connection.sendall(greeting(program, arguments))
    except OSError:
        sys.stderr.write(f"{program}: error: {UNREACHABLE}\n")
        return 1
    if program == "demo-connect":
        return hand_over(connection)
    return Client(connection, wake).run()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
