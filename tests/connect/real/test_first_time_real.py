"""A cluster that nobody has a profile for: asked, written down, and connected to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from jupyter_hpc.clusters import check_file
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import ENV_PATH
from tests.connect.real.sessions import command, environment, run
from tests.connect.real.terminal import Terminal


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    cluster.run("login1", ["ln", "-sfn", ENV_PATH, "/home/alice/lab"], user="alice", check=True)
    yield cluster.laptop("alice", "first")
    cluster.run("login1", ["rm", "-f", "/home/alice/lab"], user="alice")
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def test_a_new_cluster_in_two_commands(cluster: Cluster, laptop: Laptop) -> None:
    config = ["--ssh-config", str(laptop.ssh_config), "--name", "fresh"]
    made = run(laptop, "clusters", "new", "login1", *config, "--job")
    assert made.returncode == 0, made.stderr
    assert "was asked for, to look at a node: one task, 10 min at most." in made.stderr
    assert re.search(r"Job \d+ is cancelled\.", made.stderr), made.stderr
    cluster.wait_until_idle(60)  # nothing is left behind
    path = laptop.home / ".jupyter/hpc/clusters/fresh.toml"
    text = path.read_text("utf-8")
    release = cluster.run("login1", ["sinfo", "--version"]).stdout.split()[1]
    for words in (
        f"# Slurm {'.'.join(release.split('.')[:2])}",
        "# cpu (default): 1-00:00:00, 1 nodes, no GPUs",
        "# Your accounts: ",
        'partition = "gpu"',
        'account_rule = "ask"',
        "# Nodes take SSH.",
        'internet = "no"',
        'setup = ["source /home/alice/lab/bin/activate"]',
    ):
        assert words in text, text
    profile = check_file(path).profile
    assert profile.login.host == ("login1",) and profile.allocation.gpus == 1
    again = run(laptop, "clusters", "new", "login1", *config)
    assert again.returncode == 2 and "exists already" in again.stderr

    # Nobody to ask: what to write is said, and nothing is queued.
    path.write_text(re.sub(r"(?m)^(partition|setup) = .*\n", "", text), "utf-8")
    silent = run(laptop, "connect", "fresh", "--json")
    assert silent.returncode == 2, silent.stderr
    assert "connect fresh --account " in silent.stderr and "[allocation] account" in silent.stderr
    assert cluster.jobs() == []

    asked = ["connect", "fresh", "--no-browser", "--time", "10:00", "--cpus", "1", "--mem", "1G"]
    with Terminal(command(*asked), environment(laptop)) as terminal:
        terminal.expect("account, asked once")
        terminal.expect(r"Which account\? 1-\d \[1\]")
        terminal.type("research\n")
        terminal.expect("Remembered in ")
        terminal.expect(r"over ssh\): http", 90)
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        terminal.wait()
    written = path.read_text("utf-8")
    assert "# Your accounts: " in written, "what was there has stayed"
    profile = check_file(path).profile
    assert profile.allocation.partition == "gpu" and profile.allocation.account == "research"
    assert profile.environment.setup == ("source /home/alice/lab/bin/activate",)
    planned = run(laptop, "connect", "fresh", "--dry-run", "--time", "10:00")
    assert "--partition=gpu --account=research" in planned.stdout, planned.stderr
