"""After a black hole: how soon the session is back, beside autossh; and what it costs to stay.

    python -m bench recovery

back        s from the end of a 30 s hole, in which every packet vanished in silence, until a
            new request is answered: through `connect`, and through `autossh` with a forward
            over `ssh -J` and keepalives as short as ssh has them, in the same holes
memory      MB of the manager and of the relay, before and after many reconnects

JUPYTER_HPC_BENCH_HOLES (2; the documented figures: 10) and JUPYTER_HPC_BENCH_RECONNECTS (50;
1000) set how long it takes.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.connect import free_port, wait_for_answer
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.real.sessions import Session, connected, run

NODE = "cpu01"
OUTAGE_SECONDS = 30.0
HOLES = int(os.environ.get("JUPYTER_HPC_BENCH_HOLES", "2"))
RECONNECTS = int(os.environ.get("JUPYTER_HPC_BENCH_RECONNECTS", "50"))

#: Nobody waits longer for a connection to come back.
WAIT_SECONDS = 90.0


def main() -> None:
    with Cluster() as cluster:
        laptop = cluster.laptop("alice", "bench")
        laptop.write_profile("mini", {"allocation": {"time": "04:00:00"}})
        with connected(laptop, "mini") as session:
            port = session.wait_for("ready", 90)["port"]
            measure_holes(cluster, laptop, port)
            measure_memory(cluster, session)
            run(laptop, "stop", "mini")


# -- holes ----------------------------------------------------------------------------------


def measure_holes(cluster: Cluster, laptop: Laptop, port: int) -> None:
    job = next(iter(cluster.jobs()))
    state = cluster.home("alice") / ".local/state/jupyter-hpc/jobs" / job / "address"
    folder = dict(line.split("=", 1) for line in state.read_text().splitlines())["folder"]
    with autossh(laptop, f"{folder}/jupyter.sock") as other:
        ports = {"jupyter-hpc": port, **({"autossh": other} if other else {})}
        times: dict[str, list[float]] = {name: [] for name in ports}
        for _ in range(HOLES):
            cluster.black_hole()
            time.sleep(OUTAGE_SECONDS)
            probes = {name: Probe(number) for name, number in ports.items()}
            cluster.fill_hole()
            back = time.monotonic()
            for probe in probes.values():
                probe.start()
            for name, probe in probes.items():
                times[name].append(probe.result() - back)
            time.sleep(3)
    print(f"back after {HOLES} holes of {OUTAGE_SECONDS:g} s")
    for name, values in times.items():
        median, worst = statistics.median(values), max(values)
        print(f"  {name:12} median {median:5.2f} s, worst {worst:5.2f} s")
    ours = times["jupyter-hpc"]
    verdict = "holds" if statistics.median(ours) < 1.5 and max(ours) < 3 else "MISSED"
    print(f"  median under 1.5 s and worst under 3 s: {verdict}")


@contextlib.contextmanager
def autossh(laptop: Laptop, path: str) -> Iterator[int | None]:
    """A forward that autossh keeps, to the same Jupyter; None where it is not installed."""
    if shutil.which("autossh") is None:
        print("autossh is not installed; nothing to compare with")
        yield None
        return
    port = free_port()
    alive = ("ServerAliveInterval=1", "ServerAliveCountMax=2", "ExitOnForwardFailure=yes")
    command = ["autossh", "-M", "0", "-N", f"-L{port}:{path}"]
    command += laptop.ssh_command(NODE, options=(*alive, "ConnectTimeout=5"))[1:]
    process = subprocess.Popen(
        command,
        env={**laptop.environment, "AUTOSSH_GATETIME": "0", "AUTOSSH_POLL": "10"},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for_answer(port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


class Probe(threading.Thread):
    """Asks again and again, each time on a new connection, until there is an answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._answered = 0.0

    def run(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._answered and time.monotonic() < deadline:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=0.5)
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", "/api")
                if connection.getresponse().status == 200:
                    self._answered = time.monotonic()
            connection.close()
            time.sleep(0.02)

    def result(self) -> float:
        self.join()
        return self._answered or float("inf")


# -- memory ---------------------------------------------------------------------------------


def measure_memory(cluster: Cluster, session: Session) -> None:
    relay = next(
        process.pid
        for process in cluster.hosts[NODE].processes()
        if "--serve" in process.argv and process.uid == user_named("alice").uid
    )
    pids = {"manager": session.process.pid, "relay": relay}
    reconnect(cluster, session, 10)
    before = {name: resident(pid) for name, pid in pids.items()}
    reconnect(cluster, session, RECONNECTS)
    after = {name: resident(pid) for name, pid in pids.items()}
    print(f"memory over {RECONNECTS} reconnects")
    for name, most in (("manager", 80), ("relay", 40)):
        flat = after[name] - before[name] < 4
        verdict = "holds" if after[name] < most and flat else "MISSED"
        print(
            f"  {name:12} {before[name]:5.1f} -> {after[name]:5.1f} MB, "
            f"flat and under {most} MB: {verdict}"
        )


def reconnect(cluster: Cluster, session: Session, times: int) -> None:
    """The node's sshd loses the session, again and again; the login stays."""
    for _ in range(times):
        seen = len(session.events)
        cluster.kill_sessions(NODE, "alice")
        session.wait_for("reconnected", 60, after=seen)
        time.sleep(0.6)  # pipes that close as soon as they are open are dialled for in pauses


def resident(pid: int) -> float:
    """Resident memory in MB."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    fields = dict(line.split(":", 1) for line in rollup.splitlines()[1:])
    return int(fields["Rss"].split()[0]) / 1024


if __name__ == "__main__":
    main()
