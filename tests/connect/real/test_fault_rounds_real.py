"""Every fault of the network, many times at random moments, while a kernel counts.

JUPYTER_HPC_FAULT_ROUNDS sets how many rounds of each (20). What is printed is the table of
docs/reliability.md: seconds from the moment when the network is good until a new request is
answered, through `connect` and, where it is installed, through `autossh` beside it.
"""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections.abc import Callable

import pytest

from bench.recovery import Probe, autossh
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import make_laptop
from tests.connect.fault_proxy import FaultProxy, Mode
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import connected

ROUNDS = int(os.environ.get("JUPYTER_HPC_FAULT_ROUNDS", "20"))

#: Prints a number ten times a second until the file is there; the last line is how many.
_COUNT = """
import os, time
count = 0
while not os.path.exists(os.path.expanduser("~/enough")):
    print(count, flush=True)
    count += 1
    time.sleep(0.1)
print(count)
"""


def _pause(least: float, most: float) -> None:
    time.sleep(random.uniform(least, most))  # sleep: a fault lasts its time


def _resets(network: FaultProxy) -> None:
    for _ in range(3):
        network.reset()
        _pause(0.2, 2.0)
    network.reset()


def _for_a_while(mode: Mode, *, forgets: bool) -> Callable[[FaultProxy], None]:
    def fault(network: FaultProxy) -> None:
        network.mode = mode
        if forgets:
            network.forget()
        _pause(3, 8)
        network.mode = "pass"

    return fault


def _slow(network: FaultProxy) -> None:
    network.delay, network.rate = 0.4, 50_000
    _pause(3, 6)
    network.delay = network.rate = 0.0


def _cut_in_the_handshake(network: FaultProxy) -> None:
    network.cut_after(random.randrange(40, 6000))
    network.reset()


def _stall_in_the_handshake(network: FaultProxy) -> None:
    network.stall_after(random.randrange(40, 6000))
    network.reset()


FAULTS: dict[str, Callable[[FaultProxy], None]] = {
    "delayed and throttled": _slow,
    "stalls, goes on": _for_a_while("stall", forgets=False),
    "stalls, forgets flows": _for_a_while("stall", forgets=True),
    "resets, four in a row": _resets,
    "captive portal": _for_a_while("portal", forgets=True),
    "silent captive portal": _for_a_while("coy-portal", forgets=True),
    "cut in the handshake": _cut_in_the_handshake,
    "silence in the handshake": _stall_in_the_handshake,
}


def _row(fault: str, name: str, times: list[float]) -> str:
    back = [seconds for seconds in times if seconds != float("inf")]
    median = f"{statistics.median(back):.2f}" if back else "-"
    worst = f"{max(back):.2f}" if back else "-"
    return f"| {fault} | {name} | {len(times)} | {len(back)} | {median} | {worst} |"


@pytest.mark.faults
@pytest.mark.timeout(3 * 3600)
def test_every_fault_is_recovered_from_and_nothing_is_lost(cluster: Cluster) -> None:
    (cluster.home("alice") / "enough").unlink(missing_ok=True)
    with FaultProxy(cluster.slot.login_address, 22) as network:
        laptop = make_laptop(cluster.folders, "alice", "rounds", login_port=network.port)
        laptop.write_profile("mini", {"allocation": {"time": "04:00:00"}})
        with connected(laptop, "mini") as session:
            ready = session.wait_for("ready", 90)
            printed: list[str] = []
            kernel = Kernel(session)
            counting = threading.Thread(
                target=lambda: printed.append(kernel.run(_COUNT, 3 * 3600)), daemon=True
            )
            counting.start()
            state = cluster.home("alice") / ".local/state/jupyter-hpc/jobs" / ready["job_id"]
            fields = dict(
                line.split("=", 1) for line in (state / "address").read_text().splitlines()
            )
            with autossh(laptop, f"{fields['folder']}/jupyter.sock") as other:
                ports = {"jupyter-hpc": ready["port"], **({"autossh": other} if other else {})}
                times = _rounds(network, ports)
            (cluster.home("alice") / "enough").touch()
            counting.join(90)
    numbers = printed[0].split() if printed else []
    lost = numbers != [str(number) for number in range(len(numbers) - 1)] + numbers[-1:]
    print(f"\nthe kernel counted to {numbers[-1:]}; lost: {lost}")
    assert numbers and not lost and int(numbers[-1]) == len(numbers) - 1
    for fault, found in times.items():
        ours = found["jupyter-hpc"]
        assert max(ours) < float("inf"), f"{fault}: a session did not come back"


def _rounds(network: FaultProxy, ports: dict[str, int]) -> dict[str, dict[str, list[float]]]:
    times: dict[str, dict[str, list[float]]] = {}
    for fault, happens in FAULTS.items():
        times[fault] = {name: [] for name in ports}
        for _ in range(ROUNDS):
            happens(network)
            good = time.monotonic()
            probes = {name: Probe(port) for name, port in ports.items()}
            for probe in probes.values():
                probe.start()
            for name, probe in probes.items():
                times[fault][name].append(probe.result() - good)
            _pause(1.0, 3.0)
        for name, seconds in times[fault].items():
            print(_row(fault, name, seconds), flush=True)
    return times
