"""How soon `status` answers, as it is typed: the whole process, from start to end.

    python -m bench status

none        no session on this laptop
here        one session, whose manager is asked
cluster     `status --all` with that session: its cluster is asked over the live connection
login       `status NAME` on another laptop: over a login of its own
python      the same for `python -c pass`, which no command can be faster than

JUPYTER_HPC_BENCH_STATUS (10) is how often each is measured, in interleaved rounds.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping

from tests.cluster.cluster import Cluster
from tests.connect.real.sessions import command, connected, environment, run

ROUNDS = int(os.environ.get("JUPYTER_HPC_BENCH_STATUS", "10"))


def main() -> None:
    with Cluster() as cluster:
        laptop, other = cluster.laptop("alice", "bench"), cluster.laptop("alice", "other")
        for one in (laptop, other):
            one.write_profile("mini")
        with connected(laptop, "mini") as session:
            session.wait_for("ready", 90)
            asked = {
                "python": ([sys.executable, "-c", "pass"], laptop),
                "none": (command("status"), other),
                "here": (command("status"), laptop),
                "cluster": (command("status", "--all"), laptop),
                "login": (command("status", "mini"), other),
            }
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
            for _ in range(ROUNDS):
                for name, (argv, where) in asked.items():
                    times[name].append(seconds(argv, environment(where)))
            run(laptop, "stop", "mini")
    for name, measured in times.items():
        walls, busy = zip(*measured, strict=True)
        print(
            f"{name:8} median {statistics.median(walls):.2f} s, best {min(walls):.2f} s, "
            f"worst {max(walls):.2f} s; of the processor {statistics.median(busy):.2f} s"
        )


def seconds(argv: list[str], env: Mapping[str, str]) -> tuple[float, float]:
    """From the start of a command to its end, and what it took of the processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(argv, env=dict(env), check=True, capture_output=True, timeout=60)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
