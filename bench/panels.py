"""What the panels cost: sampling, the event loop, ten thousand jobs, the server's start.

GPUs are invented ones behind the real NVML binding (tests/gpu/nvml.c), so the time
that a real driver spends in each call comes on top of the sampler's own cost. Slurm
is a program that prints ten thousand rows.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import websocket

from jupyter_hpc.node.services.node_sampler import INTERVAL_SECONDS, PROGRAM
from jupyter_hpc.slurm.queue import JOBS
from tests.gpu.library import library_folder

JOB_COUNT = 10_000
SECONDS = 10
STARTS = 15
TABS = 8
MINUTES = 2

#: What else would be loaded where it is installed.
OTHERS = ("jupyterlab", "jupyter_lsp", "notebook", "notebook_shim", "jupyter_server_terminals")

SAMPLER = """
import asyncio, json, resource, sys, time
from jupyter_hpc.gpu.choose import open_source
from jupyter_hpc.node.services.gpus import GpuService
from jupyter_hpc.node.services.registry import Services
from jupyter_hpc.node.settings import NodeSettings
from jupyter_hpc.node.values import encode

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

async def lags(seconds, step=0.002):
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await asyncio.sleep(step)
        found.append((time.perf_counter() - began - step) * 1000)
    found.sort()
    return found[int(len(found) * 0.99)]

async def main(seconds):
    services = Services(NodeSettings(), {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"})
    quiet = await lags(seconds)
    services.gpus.start()
    await services.gpus.read()
    async def tab():
        while True:
            encode({"topic": "gpus", "data": await services.gpus.read()})
            await services.gpus.sampled.wait(5)
    task = asyncio.create_task(tab())
    busy = await lags(seconds)
    task.cancel()
    began, used = time.perf_counter(), cpu()
    await asyncio.sleep(seconds)
    share = (cpu() - used) / (time.perf_counter() - began) * 100
    history = time.perf_counter()
    await services.gpus.history(43200, 600)
    history = (time.perf_counter() - history) * 1000
    gpus = len((await services.gpus.read())["gpus"])
    await services.stop()
    print(json.dumps(dict(gpus=gpus, cpu=share, quiet=quiet, busy=busy, history=history)))

asyncio.run(main(float(sys.argv[1])))
"""

#: A server as `connect` starts it: without a grammar that takes a second to compile.
START = (
    "import sys; sys.modules['rfc3987_syntax'] = None; "
    "from jupyter_server.serverapp import main; main()"
)

#: From the moment in which Jupyter's own code is loaded to the first answer of the server.
TIMED_START = """
import http.client, json, os, socket, sys, threading, time
sys.modules['rfc3987_syntax'] = None
from jupyter_server.serverapp import ServerApp
address, extensions = sys.argv[1:]
began, used = time.perf_counter(), time.process_time()
app = ServerApp.instance()
app.initialize(argv=[
    "--allow-root", "--no-browser", "--ServerApp.sock=" + address,
    "--IdentityProvider.token=t", "--ServerApp.jpserver_extensions=" + extensions,
])

def ask():
    client = http.client.HTTPConnection("localhost")
    client.sock = socket.socket(socket.AF_UNIX)
    client.sock.connect(address)
    client.request("GET", "/api", headers={"Authorization": "token t"})
    client.getresponse().read()
    found = [(time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000]
    print(json.dumps([*found, "jupyter_hpc.node.app" in sys.modules]), flush=True)
    os._exit(0)

app.io_loop.add_callback(lambda: threading.Thread(target=ask).start())
app.start()
"""


def main() -> None:
    """Print the numbers that issue and documentation speak of."""
    with tempfile.TemporaryDirectory(prefix="jupyter-hpc-bench-") as name:
        folder = Path(name)
        measure_sampler(folder)
        measure_node_sampler(folder)
        measure_jobs(folder)
        measure_start(folder)
        count_questions(folder)


def measure_sampler(folder: Path) -> None:
    """The sampler of eight GPUs at one second, with one tab that looks."""
    environment = clean_environment(folder) | {
        "LD_LIBRARY_PATH": str(library_folder()),
        "FAKE_NVML_GPUS": "8",
    }
    found = run(SAMPLER, environment, str(SECONDS))
    print(f"sampler, {found['gpus']} GPUs at 1 s     {found['cpu']:.2f} % of one core (goal < 1)")
    print(
        f"event-loop lag p99          {found['quiet']:.2f} ms without, {found['busy']:.2f} ms with "
        f"sampler and one tab: {found['busy'] - found['quiet']:+.2f} ms (goal < 5)"
    )
    print(f"12 hours of history         {found['history']:.1f} ms")


def measure_node_sampler(folder: Path) -> None:
    """The sampler of eight GPUs of a further node, from its second sample on."""
    environment = clean_environment(folder) | {
        "LD_LIBRARY_PATH": str(library_folder()),
        "FAKE_NVML_GPUS": "8",
    }
    argv = [sys.executable, "-c", PROGRAM, f"{INTERVAL_SECONDS:g}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=environment, **pipes) as sampler:  # type: ignore[call-overload]
        for _ in range(2):
            sampler.stdout.readline()
        process = psutil.Process(sampler.pid)
        began, used = time.perf_counter(), sum(process.cpu_times()[:2])
        for _ in range(5 * SECONDS):
            line = sampler.stdout.readline()
        share = (sum(process.cpu_times()[:2]) - used) / (time.perf_counter() - began) * 100
        sampler.stdin.close()
    gpus = len(json.loads(line)["sample"]["gpus"])
    rate = f"{gpus} GPUs at {INTERVAL_SECONDS:g} s"
    print(f"further node, {rate} {share:.2f} % of one core (goal < 0.5)")


def measure_jobs(folder: Path) -> None:
    """GET jobs with ten thousand jobs: first, and from the cache."""
    programs = folder / "programs"
    programs.mkdir()
    rows = folder / "rows"
    rows.write_text("".join(job_row(number) for number in range(JOB_COUNT)), encoding="utf-8")
    write_program(programs / "squeue", f"exec cat {rows}")
    write_program(programs / "sacct", "exit 0")
    path = f"{programs}:{os.environ['PATH']}"
    with server(folder, clean_environment(folder) | {"PATH": path}) as address:
        first, size = timed(address, "/jupyter-hpc/jobs")
        cached = [timed(address, "/jupyter-hpc/jobs")[0] for _ in range(15)]
        other = [timed(address, "/jupyter-hpc/session")[0] for _ in range(5)]
    print(f"{JOB_COUNT} jobs, first request   {first:.0f} ms, {size / 1e6:.1f} MB")
    print(f"{JOB_COUNT} jobs, from the cache  {statistics.median(cached):.0f} ms (goal < 150)")
    print(f"session beside it           {statistics.median(other):.1f} ms")


def count_questions(folder: Path) -> None:
    """How often Slurm is asked while tabs look, and while all of them are hidden."""
    programs, asked = folder / "counted", folder / "asked"
    programs.mkdir()
    asked.touch()
    for name in ("squeue", "sacct", "scontrol"):
        write_program(programs / name, f"echo {name} >>{asked}")
    path = f"{programs}:{os.environ['PATH']}"
    with server(folder, clean_environment(folder) | {"PATH": path}) as address:
        tabs = [open_tab(address) for _ in range(TABS)]
        counts = []
        for watch in ([{"topic": "jobs"}, {"topic": "session"}], []):
            asked.write_text("")
            for tab in tabs:
                tab.send(json.dumps({"watch": watch}))
            time.sleep(MINUTES * 60 - 5)
            counts.append(asked.read_text().count("squeue"))
        for tab in tabs:
            tab.close()
    print(
        f"squeue in {MINUTES} minutes       {counts[0]} with {TABS} tabs that look "
        f"(goal <= {MINUTES}), {counts[1]} with all of them hidden (goal 0)"
    )


def open_tab(address: Path) -> websocket.WebSocket:
    """The stream of one browser tab, which takes what is sent."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(address))
    tab = websocket.create_connection(
        "ws://localhost/jupyter-hpc/stream",
        socket=connection,
        header={"Authorization": "token t"},
    )

    def take() -> None:
        with suppress(OSError, websocket.WebSocketException):
            while tab.recv():
                pass

    threading.Thread(target=take, daemon=True).start()
    return tab


def measure_start(folder: Path) -> None:
    """What the extension adds to a server's start, until it answers."""
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    for pair in range(STARTS + 1):
        # with and without take turns in being first, since the second finds warmer caches
        for enabled in (False, True) if pair % 2 else (True, False):
            extensions = str(dict.fromkeys(OTHERS, False) | {"jupyter_hpc": enabled})
            address = folder / f"start-{pair}-{enabled}.sock"
            *times, loaded = run_list(
                TIMED_START, clean_environment(folder), str(address), extensions
            )
            assert loaded is enabled
            if pair:  # the first pair warms the caches
                found[enabled].append(times)
    for column, name in enumerate(("start until it answers", "the same in CPU time")):
        without, with_it = ([times[column] for times in found[e]] for e in (False, True))
        added = [one - other for one, other in zip(with_it, without, strict=True)]
        low, middle, high = statistics.quantiles(added, n=4)
        print(
            f"{name:<28}{statistics.median(without):.0f} ms without, "
            f"{statistics.median(with_it):.0f} ms with: added {middle:+.0f} ms, quartiles "
            f"{low:+.0f} to {high:+.0f} ({STARTS} pairs, goal < 50)"
        )


def job_row(number: int) -> str:
    """One row as squeue prints it for our format."""
    values = {
        "JobID": str(100000 + number),
        "JobArrayID": str(100000 + number),
        "ArrayJobID": str(100000 + number),
        "UserName": "alice",
        "State": "RUNNING" if number % 5 == 0 else "PENDING",
        "Partition": "gpu",
        "Account": "research",
        "QOS": "normal",
        "NodeList": f"gpu{number % 90:02d}" if number % 5 == 0 else "",
        "NumNodes": "1",
        "NumCPUs": "8",
        "MinMemory": "32G",
        "tres-alloc": "cpu=8,mem=32G,node=1,billing=8,gres/gpu=1",
        "TimeLimit": "12:00:00",
        "TimeLeft": "6:00:00",
        "SubmitTime": "1794803808",
        "StartTime": "1794803900",
        "EndTime": "1794847100",
        "Reason": "None" if number % 5 == 0 else "Priority",
        "WorkDir": "/home/alice/project",
        "Name": f"training run {number}",
    }
    return "".join(values.get(field.ask, "N/A") + "\x1f" for field in JOBS.fields) + "\n"


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def clean_environment(folder: Path) -> dict[str, str]:
    """An environment in which nothing of the real user's Jupyter is seen."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return kept | {
        "HOME": str(folder),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }


def run(code: str, environment: dict[str, str], *arguments: str) -> dict[str, float]:
    found: dict[str, float] = json.loads(_output(code, environment, *arguments))
    return found


def run_list(code: str, environment: dict[str, str], *arguments: str) -> list[float]:
    found: list[float] = json.loads(_output(code, environment, *arguments))
    return found


def _output(code: str, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@contextmanager
def server(folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """A bare Jupyter server with the extension; yields its socket when it answers."""
    address = folder / "server.sock"
    extensions = dict.fromkeys(OTHERS, False) | {"jupyter_hpc": True}
    address.unlink(missing_ok=True)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", START, "--allow-root", "--no-browser"),
            f"--ServerApp.sock={address}",
            "--IdentityProvider.token=t",
            f"--ServerApp.jpserver_extensions={extensions}",
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "server.log").open("w"),
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                timed(address, "/api")
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)
        yield address
    except AssertionError:
        print((folder / "server.log").read_text()[-3000:])
        raise
    finally:
        process.terminate()
        process.wait(20)


def timed(address: Path, path: str) -> tuple[float, int]:
    """(milliseconds, bytes) of one request."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(address))
    client = http.client.HTTPConnection("localhost")
    client.sock = connection
    began = time.perf_counter()
    client.request("GET", path, headers={"Authorization": "token t"})
    answer = client.getresponse()
    body = answer.read()
    elapsed = (time.perf_counter() - began) * 1000
    client.close()
    assert answer.status == 200, body[:200]
    return elapsed, len(body)


if __name__ == "__main__":
    main()
