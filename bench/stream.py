"""The lossless stream beside `ssh -J` and the chained `ssh -L`, on the real test cluster.

    python -m bench stream

Two hops, one source on the node that is the same for all. Rounds are interleaved, so that a
busy machine is busy for everybody; medians are printed, and the median of the ratios to `ssh -J`
in the same round. With all parts on one machine the figures are processor cost: read the ratios,
not the megabytes.

down, up    MB/s of one transfer           rtt        microseconds of an idle round trip
loaded      ms of a round trip while a     new        ms from connect to the first answer
            full-speed download runs       new tcp    the same through a forward to a TCP port
                                           parallel   s for 200 connections of 64 kB each
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator

import asyncssh

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.proxy.server import LocalProxy
from jupyter_hpc.connect.ssh.login import open_login
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.transports import Attach, Connections, open_pipe
from jupyter_hpc.relay.bundle import relay_source
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop

NODE = "cpu01"
USER = "alice"
SECRET = "a secret of more than sixteen characters"
MEGABYTES = 64
ROUNDS = 8

#: Answers like a small web server, on a unix socket and on a TCP port of loopback.
SOURCE = """
import socket, sys, threading
size = int(sys.argv[2]) << 20
def serve(c):
    head = c.recv(65536)
    if head.startswith(b"GET /down"):
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % size)
        for _ in range(size >> 20): c.sendall(bytes(1 << 20))
    elif head.startswith(b"POST /up"):
        got, buffer = len(head) - head.find(b"\\r\\n\\r\\n") - 4, bytearray(1 << 20)
        while got < size: got += c.recv_into(buffer)
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    elif head.startswith(b"GET /echo"):
        c.sendall(b"HTTP/1.1 101 Switching\\r\\n\\r\\n")
        while data := c.recv(65536): c.sendall(data)
    else:
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 65536\\r\\n\\r\\n" + bytes(65536))
    c.close()
def listen(s):
    s.listen(512)
    while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
unix, tcp = socket.socket(socket.AF_UNIX), socket.socket()
unix.bind(sys.argv[1]); tcp.bind(("127.0.0.1", 0))
threading.Thread(target=listen, args=(tcp,), daemon=True).start()
print(tcp.getsockname()[1], flush=True)
listen(unix)
"""

#: The client of all paths, in a process of its own; prints its measurements as JSON.
CLIENT = """
import json, socket, statistics, sys, threading, time
port, tcp_port, size = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) << 20
def connect(request, port=port):
    host = b"Host: localhost:%d\\r\\n" % port
    s = socket.create_connection(("127.0.0.1", port), 60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(request + host + b"\\r\\n")
    return s
def head(s):
    data = b""
    while b"\\r\\n\\r\\n" not in data: data += s.recv(65536)
    return len(data) - data.find(b"\\r\\n\\r\\n") - 4
def read(s, count):
    got, buffer = head(s), bytearray(1 << 20)
    while got < count:
        more = s.recv_into(buffer)
        if not more: sys.exit(f"cut short: {got} of {count}")
        got += more
def down():
    began = time.perf_counter()
    read(connect(b"GET /down HTTP/1.1\\r\\n"), size)
    return size / 1e6 / (time.perf_counter() - began)
def up():
    began = time.perf_counter()
    s = connect(b"POST /up HTTP/1.1\\r\\nContent-Length: %d\\r\\n" % size)
    for _ in range(size >> 20): s.sendall(bytes(1 << 20))
    head(s)
    return size / 1e6 / (time.perf_counter() - began)
def round_trips(s, more):
    times = []
    while more(len(times)):
        began = time.perf_counter()
        s.sendall(b"x" * 64)
        got = 0
        while got < 64: got += len(s.recv(64))
        times.append(time.perf_counter() - began)
    return statistics.median(times)
def echo():
    s = connect(b"GET /echo HTTP/1.1\\r\\nUpgrade: raw\\r\\n")
    head(s)
    return s
def loaded():
    load = threading.Thread(target=down)
    load.start(); time.sleep(0.1)
    s = echo()
    return round_trips(s, lambda n: load.is_alive() and not time.sleep(0.002)) * 1e3
def new(port):
    times = []
    for _ in range(60):
        began = time.perf_counter()
        s = connect(b"GET /new HTTP/1.1\\r\\n", port)
        s.recv(1)
        times.append(time.perf_counter() - began)
        s.close()
    return statistics.median(times) * 1e3
def parallel():
    began = time.perf_counter()
    threads = [threading.Thread(target=lambda: read(connect(b"GET /n HTTP/1.1\\r\\n"), 65536))
               for _ in range(200)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return time.perf_counter() - began
print(json.dumps({"rtt": round_trips(echo(), lambda n: n < 400) * 1e6, "new": new(port),
                  "new tcp": new(tcp_port), "down": down(), "up": up(), "loaded": loaded(),
                  "parallel": parallel()}))
"""


def main() -> None:
    with Cluster() as cluster:
        asyncio.run(measure(cluster))


async def measure(cluster: Cluster) -> None:
    laptop = cluster.laptop(USER)
    os.environ["HOME"] = str(laptop.home)
    os.environ.pop("SSH_AUTH_SOCK", None)
    with source(cluster) as (folder, tcp_port), contextlib.ExitStack() as ssh:
        jump = ssh.enter_context(
            forward(laptop, NODE, lambda port: [f"-L{port}:{folder}/jupyter.sock"])
        )
        service = ssh.enter_context(
            forward(laptop, NODE, lambda port: [f"-L{port}:127.0.0.1:{tcp_port}"])
        )
        chained = ssh.enter_context(chain(laptop, tcp_port))
        ports = {"ssh -J": (jump, service), "chain": (chained, chained)}
        async with stream(laptop, folder, tcp_port) as ours:
            ports["jupyter-hpc"] = ours
            results = await rounds(ports)
    show(results)


async def rounds(ports: dict[str, tuple[int, int]]) -> dict[str, list[dict[str, float]]]:
    results: dict[str, list[dict[str, float]]] = {name: [] for name in ports}
    for _ in range(ROUNDS):
        for name, (port, tcp_port) in ports.items():
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", CLIENT, str(port), str(tcp_port), str(MEGABYTES)),
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await asyncio.wait_for(process.communicate(), 300)
            if process.returncode:
                raise SystemExit(f"the client of {name} failed")
            results[name].append(json.loads(out))
    return results


def show(results: dict[str, list[dict[str, float]]]) -> None:
    openssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True).stderr
    print(f"asyncssh {asyncssh.__version__}, Python {platform.python_version()}, {openssh.strip()}")
    columns = list(results["ssh -J"][0])
    print(f"{'':14}" + "".join(f"{column:>18}" for column in columns))
    for name, runs in results.items():
        cells = []
        for column in columns:
            values = [one[column] for one in runs]
            pairs = zip(values, results["ssh -J"], strict=True)
            ratio = statistics.median(value / other[column] for value, other in pairs)
            cells.append(f"{statistics.median(values):.4g} ({ratio:.2f}x)")
        print(f"{name:14}" + "".join(f"{cell:>18}" for cell in cells))


@contextlib.contextmanager
def source(cluster: Cluster) -> Iterator[tuple[str, int]]:
    """The source and a relay on the node, in a private folder there."""
    made = cluster.run(NODE, ["mktemp", "-d", "/tmp/jh-XXXXXXXX"], user=USER, check=True)
    folder = made.stdout.strip()
    for name, text in (("relay.py", relay_source()), ("relay.secret", SECRET)):
        script = f"umask 077; cat > {folder}/{name}"
        cluster.run(NODE, ["sh", "-c", script], user=USER, input=text, check=True)
    serving = cluster.popen(
        NODE,
        ["python3", "-c", SOURCE, f"{folder}/jupyter.sock", str(MEGABYTES)],
        user=USER,
        stdout=subprocess.PIPE,
    )
    relay = cluster.popen(
        NODE,
        ["python3", f"{folder}/relay.py", "--serve", folder, "--jupyter", f"{folder}/jupyter.sock"],
        user=USER,
    )
    try:
        assert serving.stdout is not None
        yield folder, int(serving.stdout.readline())
    finally:
        for process in (serving, relay):
            process.kill()
            process.wait()


@contextlib.contextmanager
def forward(
    laptop: Laptop, host: str, words: Callable[[int], list[str]], *remote: str
) -> Iterator[int]:
    """An OpenSSH client with a local forward, once it listens."""
    port = free_port()
    command = laptop.ssh_command(host, options=("ExitOnForwardFailure=yes",))
    command[1:1] = words(port)
    if not remote:
        command.insert(1, "-N")
    process = subprocess.Popen(
        [*command, *remote], stdin=subprocess.DEVNULL, env=laptop.environment
    )
    try:
        wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def chain(laptop: Laptop, tcp_port: int) -> Iterator[int]:
    """`ssh -L ... login ssh -L ... node`, as people type it."""
    middle = free_port()
    inner = f"ssh -N -L {middle}:127.0.0.1:{tcp_port} {NODE}"
    with forward(laptop, "login1", lambda port: [f"-L{port}:127.0.0.1:{middle}"], inner) as port:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
                one.settimeout(2)
                one.sendall(b"GET /new HTTP/1.1\r\n\r\n")
                if one.recv(1):
                    break
            if time.monotonic() > deadline:
                raise SystemExit("the chain does not come up")
            time.sleep(0.1)
        yield port


@contextlib.asynccontextmanager
async def stream(laptop: Laptop, folder: str, tcp_port: int) -> AsyncIterator[tuple[int, int]]:
    """Proxy, link and pipe of this project, over the first transport; and a forwarded port."""
    login = Login(host=("login1",), ssh_config=str(laptop.ssh_config))
    connections = Connections(await open_login(login, NoPrompter()), NoPrompter())
    argv = ("python3", f"{folder}/relay.py", "--attach", f"{folder}/relay.sock")
    link, proxy = Link(SECRET, "bench"), LocalProxy(0, dict, dict, "secret")
    await link.attach(await open_pipe("ssh", connections, Attach(NODE, argv)))
    await proxy.start()
    proxy.connect(link)
    try:
        yield proxy.port, await proxy.add_forward(0, f"tcp:127.0.0.1:{tcp_port}")
    finally:
        await proxy.close()
        await link.close()
        connections.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing listens on {port}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
