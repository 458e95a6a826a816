"""A cluster that nobody has a profile for, by the documentation alone: to a session with panels.

The commands are those of docs/users/first-session.md. The account has no environment, and the
packages are the real ones, in a folder of wheels: the test cluster reaches no network.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from jupyter_hpc.clusters import check_file
from tests.cluster.cluster import Cluster
from tests.connect.real.bare_account import ENV, WHEELS
from tests.connect.real.bare_account import account as account
from tests.connect.real.sessions import connected, run
from tests.connect.setup.wheels import wheel_folder

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_from_a_host_s_name_to_a_session(cluster: Cluster, account: Path) -> None:
    shutil.rmtree(account / "wheels")
    shutil.copytree(wheel_folder(), account / "wheels")
    laptop = cluster.laptop("alice", "newcomer")
    times = {}

    def step(*words: str, timeout: float = 600) -> str:
        began = time.monotonic()
        done = run(laptop, *words, timeout=timeout)
        times[words[0]] = time.monotonic() - began
        print("$ jupyter-hpc", *words, f"[{times[words[0]]:.1f} s]")
        print(done.stdout, done.stderr, sep="")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    config = ("--ssh-config", str(laptop.ssh_config))
    said = step("clusters", "new", "login1", *config, "--name", "fresh")
    assert "jupyter-hpc setup fresh" in said
    file = laptop.home / ".jupyter/hpc/clusters/fresh.toml"
    print(file.read_text())
    said = step("setup", "fresh", "--wheels", WHEELS)
    assert "It starts on " in said and "Next: jupyter-hpc connect fresh" in said
    assert check_file(file).profile.environment.setup == (f"source /home/alice/{ENV}/bin/activate",)
    said = step("doctor", "fresh")
    assert "FAILED" not in said and "All is well" in said
    began = time.monotonic()
    with connected(laptop, "fresh", "--account", "research", "--gpus", "0") as session:
        session.wait_for("ready", 180)
        times["connect"] = time.monotonic() - began
        token = run(laptop, "url", "fresh").stdout.strip().partition("token=")[2]
        status, body, _ = session.get("/jupyter-hpc/session", {"Authorization": f"token {token}"})
        assert status == 200 and "job" in json.loads(body)
        print(*(event["text"] for event in session.events), session.errors, sep="\n")
    print(times)
    # The words of the promise: two minutes for the profile, ten for the environment.
    assert times["clusters"] < 120 and times["setup"] < 600, times
    step("setup", "fresh", "--remove")
    assert not (account / f"{ENV}.d").exists()
