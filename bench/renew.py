"""How long a page waits while its session changes to the server of another job.

    python -m bench renew

change      s from the first answer of the new server until the local port leads to it; what is
            open is opened there first, with one kernel
pause       s in which a page that asks all the time gets no answer, over the whole renewal
carried     the change where the kernel's variables, 100 MB, are written and read first

JUPYTER_HPC_BENCH_RENEW (5) is how often each is measured.
"""

from __future__ import annotations

import os
import re
import statistics
from datetime import datetime

from jupyter_hpc.connect.session.client import ask_manager
from jupyter_hpc.connect.session.store import Records
from tests.cluster.cluster import Cluster
from tests.connect.real.counting import Counter, Port
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import Session, connected, run
from tests.waiting import eventually

ROUNDS = int(os.environ.get("JUPYTER_HPC_BENCH_RENEW", "5"))

#: What a kernel knows in the second half.
CELL = "import os; weights = os.urandom(100 << 20)"

_ANSWERS = re.compile(r"^(\S+) .*the successor answers", re.M)
_READY = re.compile(r"^(\S+) .*event ready: ", re.M)


def main() -> None:
    with Cluster() as cluster:
        laptop = cluster.laptop("alice", "bench")
        laptop.write_profile("mini", {"slurm": {"poll_seconds": 2}})
        records = Records(laptop.home / ".local/share/jupyter/hpc")
        with connected(laptop, "mini") as session:
            session.wait_for("ready", 90)
            port = Port(session)
            asked = {"path": "a.ipynb", "name": "a.ipynb", "type": "notebook"}
            made = port.ask("POST", "/api/sessions", {**asked, "kernel": {"name": "python3"}})
            pauses = renew(session, port, records, variables=False)
            Kernel(laptop).run_in(made["kernel"]["id"], CELL)
            renew(session, port, records, variables=True)
            took = changes(records.log_file("mini").read_text(encoding="utf-8"))
            run(laptop, "stop", "mini")
    for name, values in (("change", took[:ROUNDS]), ("pause", pauses), ("carried", took[ROUNDS:])):
        print(f"{name:8} median {statistics.median(values):.2f} s, worst {max(values):.2f} s")
    print(f"load     {os.getloadavg()[1]:.1f} over the last 5 minutes")


def renew(session: Session, port: Port, records: Records, *, variables: bool) -> list[float]:
    """Change to another job again and again; the longest pause of each change."""
    return [_pause(session, port, records, variables) for _ in range(ROUNDS)]


def _pause(session: Session, port: Port, records: Records, variables: bool) -> float:
    before, counter = session.names().count("ready"), Counter(port)
    record = records.session("mini")
    assert record is not None
    ask_manager(record, "renew", {"variables": variables})
    eventually(lambda: session.names().count("ready") > before, seconds=120)
    return counter.longest_pause()


def changes(log: str) -> list[float]:
    """From each successor's first answer to the ready that follows it."""
    answers = [_epoch(stamp) for stamp in _ANSWERS.findall(log)]
    readies = [_epoch(stamp) for stamp in _READY.findall(log)]
    return [min(at for at in readies if at >= began) - began for began in answers]


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


if __name__ == "__main__":
    main()
