"""How long `doctor` takes on a healthy cluster, besides its job's time in the queue.

    python -m bench doctor

job         all of it, with its small job, on a cluster whose nodes are idle
no-job      without one

The bar is 10 s. JUPYTER_HPC_BENCH_DOCTOR (5) is how often each is measured.
"""

from __future__ import annotations

import os
import statistics

from bench.status import seconds
from tests.cluster.cluster import Cluster
from tests.connect.real.sessions import command, environment

ROUNDS = int(os.environ.get("JUPYTER_HPC_BENCH_DOCTOR", "5"))


def main() -> None:
    words = {"job": ["doctor", "mini"], "no-job": ["doctor", "mini", "--no-job"]}
    times: dict[str, list[float]] = {name: [] for name in words}
    with Cluster() as cluster:
        laptop = cluster.laptop("alice", "bench")
        laptop.write_profile("mini")
        for _ in range(ROUNDS):
            for name, asked in words.items():
                cluster.wait_until_idle()
                times[name].append(seconds(command(*asked), environment(laptop))[0])
    for name, walls in times.items():
        print(
            f"{name:8} median {statistics.median(walls):.2f} s, best {min(walls):.2f} s, "
            f"worst {max(walls):.2f} s"
        )


if __name__ == "__main__":
    main()
