"""From one command to JupyterLab, beside the same steps by hand, on the real test cluster.

    python -m bench connect

first       s from the command to the first answer of Jupyter, with free resources: `connect`,
            and by hand (salloc, srun jupyter lab, `ssh -J` with a forward)
again       s to reattach to the running session
far         the first connect over a line with 100 ms of round trip
page        s until JupyterLab's launcher is shown by a browser with an empty cache: through the
            forward, and from the same server software without a tunnel

Rounds are interleaved, so that a busy machine is busy for everybody. All hosts and the laptop
share this machine's processors. JUPYTER_HPC_BENCH_ROUNDS sets the number of rounds.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.browser.launching import launch_options
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import ENV_SETUP, Laptop
from tests.connect.real.sessions import Session, connected, run

NODE = "cpu01"
ROUNDS = int(os.environ.get("JUPYTER_HPC_BENCH_ROUNDS", "3"))

#: By hand, as the documentation of sites tells it; the socket keeps it comparable.
_ALLOCATE = "salloc --no-shell -p cpu -t 30 -c 1 --mem 2G -J by-hand"
_SERVE = (
    "srun --jobid={job} --overlap -n1 bash -c '{setup}; exec jupyter lab --no-browser "
    "--ServerApp.sock={folder}/jupyter.sock' >/dev/null 2>&1"
)

Times = dict[str, list[float]]


def main() -> None:
    with Cluster() as cluster:
        times: Times = {}
        laptop = cluster.laptop("alice", "bench")
        laptop.write_profile("mini")
        measure_starts(cluster, laptop, times)
        measure_pages(cluster, laptop, times)
    show(times)


# -- starting -------------------------------------------------------------------------------


def measure_starts(cluster: Cluster, laptop: Laptop, times: Times) -> None:
    """The first connect of all teaches the laptop what it remembers; it is not counted."""
    with cluster.slow_laptop("alice", "far", milliseconds=50) as far:
        far.write_profile("mini")
        for one in (laptop, far):
            connect(cluster, one)
        for _ in range(ROUNDS):
            add(times, "by hand", by_hand(cluster, laptop))
            first, again = connect(cluster, laptop)
            add(times, "connect", first)
            add(times, "reattach", again)
            add(times, "connect, 100 ms away", connect(cluster, far)[0])


def connect(cluster: Cluster, laptop: Laptop) -> tuple[float, float]:
    """Seconds to a new session, and to the same one again; it is stopped afterwards."""
    with connected(laptop, "mini") as session:
        first = answered(session)
        session.end()
    with connected(laptop, "mini") as session:
        again = answered(session)
        run(laptop, "stop", "mini")
    cluster.wait_until_idle()
    return first, again


def answered(session: Session) -> float:
    """Seconds from the start of the command to an answer of Jupyter after `ready`."""
    ready = session.wait_for("ready", 90)
    wait_for_answer(ready["port"])
    return time.monotonic() - session.began


def by_hand(cluster: Cluster, laptop: Laptop) -> float:
    began = time.monotonic()
    made = laptop.ssh("login1", _ALLOCATE)
    job = re.findall(r"Granted job allocation (\d+)", made.stderr)[0]
    folder = laptop.ssh(NODE, "mktemp -d").stdout.strip()
    serve = _SERVE.format(job=job, setup="; ".join(ENV_SETUP), folder=folder)
    port = free_port()
    command = laptop.ssh_command(NODE)
    command[1:1] = [f"-L{port}:{folder}/jupyter.sock"]
    tunnel = subprocess.Popen([*command, serve], env=laptop.environment, stderr=subprocess.DEVNULL)
    try:
        wait_for_answer(port)
        return time.monotonic() - began
    finally:
        tunnel.terminate()
        tunnel.wait(10)
        cluster.run("login1", ["scancel", job])
        cluster.wait_until_idle()


# -- the page -------------------------------------------------------------------------------


def measure_pages(cluster: Cluster, laptop: Laptop, times: Times) -> None:
    from playwright.sync_api import sync_playwright

    with connected(laptop, "mini") as session, plain_server(cluster) as direct:
        session.wait_for("ready", 90)
        tunnel = run(laptop, "url", "mini").stdout.strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(**launch_options())

            def load(address: str) -> float:
                context = browser.new_context()
                try:
                    page = context.new_page()
                    began = time.monotonic()
                    page.goto(address)
                    page.locator(".jp-LauncherCard").first.wait_for(timeout=120_000)
                    return time.monotonic() - began
                finally:
                    context.close()

            for address in (tunnel, direct):
                load(address)
            for _ in range(ROUNDS):
                add(times, "page, no tunnel", load(direct))
                add(times, "page", load(tunnel))
            browser.close()
        run(laptop, "stop", "mini")


@contextlib.contextmanager
def plain_server(cluster: Cluster) -> Iterator[str]:
    """The same JupyterLab on a TCP port that the laptop reaches directly."""
    port, token = 18888, "bench"
    command = f"{'; '.join(ENV_SETUP)}; exec jupyter lab --no-browser --ip=0.0.0.0 --port={port}"
    server = cluster.popen(
        "login1",
        ["bash", "-c", command],
        user="alice",
        env={"JUPYTER_TOKEN": token},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = cluster.slot.login_address
    try:
        wait_for_answer(port, address)
        yield f"http://{address}:{port}/lab?token={token}"
    finally:
        server.kill()
        server.wait()


# -- small things ---------------------------------------------------------------------------


def wait_for_answer(port: int, host: str = "127.0.0.1", seconds: float = 90) -> None:
    """Until Jupyter answers; asked every 20 ms, which is as exact as this needs to be."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(host, port, timeout=10)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/api")
            if connection.getresponse().status == 200:
                return
        connection.close()
        time.sleep(0.02)
    raise SystemExit(f"nothing answers on {host}:{port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def add(times: Times, name: str, seconds: float) -> None:
    times.setdefault(name, []).append(seconds)


def show(times: Times) -> None:
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:22} {median[name]:6.2f} s   ({min(values):.2f} to {max(values):.2f})")
    bars: list[tuple[str, float, str, float, Callable[[float], str]]] = [
        ("connect - by hand", median["connect"] - median["by hand"], "s", 1.0, "{:+.2f}".format),
        ("reattach", median["reattach"], "s", 1.5, "{:.2f}".format),
        (
            "100 ms away - near",
            median["connect, 100 ms away"] - median["connect"],
            "s",
            4.0,
            "{:+.2f}".format,
        ),
        ("page / no tunnel", median["page"] / median["page, no tunnel"], "x", 1.3, "{:.2f}".format),
    ]
    print()
    for name, value, unit, most, shown in bars:
        verdict = "holds" if value <= most else "MISSED"
        print(f"{name:22} {shown(value)} {unit}, at most {most} {unit}: {verdict}")


if __name__ == "__main__":
    main()
