"""What a replica demands of a request, tried with sbatch itself: each rule refuses in its words."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cluster.layout import LOGIN
from tests.cluster.replica import Replica, Shape


def _breaches(shape: Shape) -> Iterator[tuple[list[str], str]]:
    """Options that break one rule each, in the order of job_submit.lua, and the words about it."""
    kind = next(iter(shape.gpus), "")
    account = ["--account=research"]
    if shape.account:
        yield [], "specify an account"
    if shape.no_partition:
        yield [*account, f"--partition={shape.partitions[0].split()[0]}"], "Do not name a partition"
    if shape.typed:
        yield [*account, "--gpus-per-node=1"], "specify the model"
    if shape.gpu_counts:
        yield [*account, f"--gpus-per-node={kind}:3"], "number of GPUs"
    for partition in shape.gpu_partitions:
        yield [*account, f"--partition={partition}"], "for jobs with GPUs"
    for partition, qos in shape.qos:
        yield [*account, f"--partition={partition}", f"--gres=gpu:{kind}:1"], f"--qos={qos}"
    if not (shape.typed or shape.gpu_counts or shape.gpu_partitions):
        yield [*account, "--time=40-00:00:00"], "Requested time limit is invalid"


def check(cluster: Replica) -> None:
    """The site refuses what it would refuse."""
    accounting = cluster.switches.accounting
    for options, words in _breaches(cluster.shape):
        kept = [option for option in options if accounting or "--account" not in option]
        done = cluster.run(LOGIN, ["sbatch", *kept, "--wrap=true"], user="alice", cwd="/home/alice")
        assert done.returncode != 0 and words in done.stderr, (kept, words, done.stderr)
