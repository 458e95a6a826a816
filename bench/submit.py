"""How long a submit takes over the live connection of a session, with and without preflight.

    python -m bench submit

plain       prepare and submit, nothing looked for
preflight   the same with the look before the queue: bar 0.6 s more
look        the look alone: bar 2 s
queue       notebook to job id, the whole process as it is typed

JUPYTER_HPC_BENCH_SUBMIT (10) is how often each is measured, in interleaved rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.batch.notebooks import notebook
from tests.cluster.cluster import Cluster
from tests.connect.real.sessions import command, connected, environment, run

ROUNDS = int(os.environ.get("JUPYTER_HPC_BENCH_SUBMIT", "10"))

CELLS = [
    "import os, json, math, random, matplotlib, numpy as np\nlr = 0.1",
    "rows = open('rows.csv').read()\nhome = open('/etc/hostname').read()",
    "def train(epochs):\n    import csv, sqlite3\n    return epochs * lr",
    "np.save('weights.npy', np.ones(3))\nprint(train(3), os.environ['HOME'])",
]
SMALL = ["--time", "5", "--cpus", "1", "--mem", "300M", "--gpus", "0", "--partition", "cpu"]

#: Runs in the process that measures: one connection, as a panel or an agent has it.
INSIDE = """
import asyncio, dataclasses, json, sys, time
from pathlib import Path
from jupyter_hpc.batch.preflight.preflight import preflight
from jupyter_hpc.batch.submit import looking, submit as batch
from jupyter_hpc.batch.submit.choices import Choices, submit_options
from jupyter_hpc.batch.submit.drafts import read_draft
from jupyter_hpc.cli.hosts import open_host
from jupyter_hpc.slurm.client import SlurmClient

looks = []

async def timed(subject, runner):
    began = time.monotonic()
    found = await preflight(subject, runner)
    looks.append(time.monotonic() - began)
    return found

async def main():
    times = {"plain": [], "preflight": [], "look": looks}
    request = {"time": "5", "cpus": 1, "memory": "300M", "gpus": 0, "partition": "cpu"}
    async with open_host("mini") as host:
        client = SlurmClient(host.runner)
        options = submit_options(Choices(request=request), host.profile, here=False)
        await read_draft(Path("train.ipynb"), options, host.runner)  # what is imported late
        for _ in range(int(sys.argv[1])):
            for name in ("plain", "preflight"):
                chosen = dataclasses.replace(options, preflight=name == "preflight")
                began = time.monotonic()
                made = await batch.prepare(Path("train.ipynb"), chosen, host.runner, client)
                done = await batch.submit(made, host.runner, client)
                times[name].append(time.monotonic() - began)
                assert not made.findings, made.findings
                await client.cancel([done.job_id])
        looking.preflight = timed
        for _ in range(int(sys.argv[1])):
            await batch.prepare(Path("train.ipynb"), options, host.runner, None)
    print(json.dumps(times))

asyncio.run(main())
"""


def main() -> None:
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.ipynb").write_text(json.dumps(notebook(CELLS)), encoding="utf-8")
        (Path(folder) / "rows.csv").write_text("1,2\n" * 1000, encoding="utf-8")
        laptop = cluster.laptop("alice", "bench")
        laptop.write_profile("mini")
        with connected(laptop, "mini") as session:
            session.wait_for("ready", 90)
            env = environment(laptop)
            done = subprocess.run(
                [sys.executable, "-c", INSIDE, str(ROUNDS)],
                cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=600,
            )  # fmt: skip
            times: dict[str, list[float]] = json.loads(done.stdout)
            times["queue"] = []
            for _ in range(ROUNDS):
                began = time.monotonic()
                words = command("submit", "train.ipynb", "--on", "mini", *SMALL)
                subprocess.run(words, cwd=folder, env=env, check=True, capture_output=True)
                times["queue"].append(time.monotonic() - began)
                cluster.run("login1", ["scancel", "--user=alice", "--name=train"])
            run(laptop, "stop", "mini")
    for name, walls in times.items():
        print(
            f"{name:10} median {statistics.median(walls):.2f} s, best {min(walls):.2f} s, "
            f"worst {max(walls):.2f} s"
        )
    more = statistics.median(times["preflight"]) - statistics.median(times["plain"])
    print(f"preflight adds {more:.2f} s to a submit")


if __name__ == "__main__":
    main()
