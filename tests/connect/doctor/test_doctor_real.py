"""The check-up of a real cluster: all well, each thing that can be wrong, and nothing left."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess

import pytest

from jupyter_hpc import __version__
from jupyter_hpc.clusters import Profile, check_file
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.laptop import Laptop, Value
from tests.connect.doctor.looking import look
from tests.connect.real.sessions import command, environment, run
from tests.connect.ssh.on_cluster import at_home
from tests.waiting import eventually

#: Of a user's home and of a node's /tmp and /dev/shm: what a check-up could leave.
_LEFT = "find /home/alice/.local/state /tmp /dev/shm -user alice ! -name 'slurm*'"


@pytest.fixture(scope="module", autouse=True)
def _empty_folders(cluster: Cluster) -> None:
    """What other modules have left on their common cluster is no fault of this one."""
    for host in ("login1", "cpu01", "gpu01"):
        cluster.run(host, ["sh", "-c", f"{_LEFT} -delete; rm -rf /home/alice/.local/state/*"])


def left_behind(cluster: Cluster) -> str:
    """Files of alice's that were not there before; her jobs."""
    files = [cluster.run(host, ["sh", "-c", _LEFT]).stdout for host in ("login1", "cpu01")]
    kept = [line for line in "".join(files).splitlines() if line != "/home/alice/.local/state"]
    return " ".join([*kept, *cluster.jobs()])


def profile_at(laptop: Laptop, **sections: dict[str, Value]) -> Profile:
    return check_file(laptop.write_profile("mini", sections)).profile


def nothing_is_left(cluster: Cluster) -> None:
    eventually(lambda: not left_behind(cluster), lambda: left_behind(cluster))


def test_a_healthy_cluster_on_the_command_line(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice", "healthy")
    laptop.write_profile()
    shown = run(laptop, "doctor", "mini")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "FAILED" not in shown.stdout and "note" not in shown.stdout, shown.stdout
    assert "ssh, login-ssh and srun reach the node" in shown.stdout
    assert shown.stdout.splitlines()[-1].startswith("All is well: ")
    assert "was asked for, to look at a node: one task, 10 min at most" in shown.stderr
    nothing_is_left(cluster)
    told = run(laptop, "doctor", "mini", "--json", "--no-job")
    *lines, summary = map(json.loads, told.stdout.splitlines())
    assert told.returncode == 0 and summary["summary"] == "ok", told.stdout
    assert {"check", "title", "outcome", "text", "fix"} == set(lines[0])
    assert [line["outcome"] for line in lines if line["check"] == "job"] == ["skipped"]
    assert "was asked for" not in told.stderr


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended_half_way(cluster: Cluster, sign: signal.Signals) -> None:
    laptop = cluster.laptop("alice", "ended")
    laptop.write_profile()
    process = subprocess.Popen(
        command("doctor", "mini"),
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any("was asked for" in line for line in process.stderr)
    folder = "ls -d /home/alice/.local/state/jupyter-hpc/jobs/*/launch.sh"
    eventually(lambda: cluster.run("login1", ["sh", "-c", folder]).returncode == 0)
    process.send_signal(sign)
    process.communicate(timeout=60)
    assert process.returncode == (-sign if sign == signal.SIGKILL else 128 + sign)
    nothing_is_left(cluster)


@pytest.mark.parametrize("silent", [False, pytest.param(True, marks=pytest.mark.faults)])
def test_a_cut_in_the_middle_is_named(cluster: Cluster, silent: bool) -> None:
    """The cluster gives the job back by itself; of a silent network it hears with the job's end."""
    laptop = cluster.laptop("alice", "cut")
    laptop.write_profile()
    process = subprocess.Popen(
        command("doctor", "mini"),
        env=environment(laptop),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any("was asked for" in line for line in process.stderr)
    folder = "ls -d /home/alice/.local/state/jupyter-hpc/jobs/*/launch.sh"
    eventually(lambda: cluster.run("login1", ["sh", "-c", folder]).returncode == 0)
    if silent:
        cluster.black_hole()
    else:
        cluster.kill_sessions("login1", "alice")
    try:
        shown, _ = process.communicate(timeout=120)
    finally:
        cluster.fill_hole()
    assert process.returncode == 1
    assert "The connection to login1 was lost meanwhile" in shown, shown
    assert "It ends by itself, at once or within 10 min." in shown, shown
    if silent:
        cluster.kill_sessions("login1", "alice")  # as sshd does in the end
    nothing_is_left(cluster)


def test_a_job_that_is_left_is_shown_and_is_no_session(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice", "shown")
    laptop.write_profile()
    words = ["sbatch", "--parsable", "--job-name=jupyter-hpc-mini+check", "--wrap=sleep 60"]
    job_id = cluster.run("login1", words, user="alice", check=True, cwd="/home/alice").stdout
    shown = run(laptop, "status", "--all").stdout
    assert f"job {job_id.strip()}" in shown and "It only looks at a node" in shown
    assert "jupyter-hpc connect" not in shown
    cluster.run("login1", ["scancel", job_id.strip()], check=True)


async def test_what_is_wrong_is_said_on_its_line(
    healed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = healed_cluster
    laptop = at_home(cluster.laptop("alice", "wrong"), monkeypatch)

    def wrong(**allocation: Value) -> Profile:
        return profile_at(laptop, allocation={"partition": "cpu", **allocation})

    for allocation, name, words in (
        ({"partition": "gone"}, "partition", "no partition 'gone' -> Partitions here: gpu, cpu"),
        ({"account": "nobody"}, "account", "no account 'nobody' -> Your accounts: "),
        ({"qos": "gone"}, "qos", "no QOS 'gone'"),
        ({"time": "30-00:00:00"}, "limits", "longer than partition cpu allows"),
    ):
        lines = await look(wrong(**allocation), job=False)
        assert lines.failed == [name], lines.not_ok
        assert words in lines.words(name).replace(".", ""), lines.words(name)
    with cluster.changed_host_key("login1"):
        lines = await look(wrong(), job=False)
    assert lines.failed == ["host-key"]
    cluster.stop("login1", "slurmctld")
    lines = await look(wrong())
    assert lines.failed == ["slurm"] and "does not answer" in lines["slurm"].text, lines.not_ok
    assert lines.outcome("job") == "skipped"
    cluster.start("login1", "slurmctld")
    cluster.cut("laptop")
    lines = await look(wrong(), job=False)
    assert lines.failed == ["network"], lines.not_ok


async def test_a_node_without_jupyter(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop = at_home(cluster.laptop("alice", "bare"), monkeypatch)
    lines = await look(profile_at(laptop, environment={"setup": []}))
    assert lines.failed == ["jupyter"], lines.not_ok
    assert "jupyter was not found on the node" in lines["jupyter"].text
    assert "pip install jupyterlab jupyter-hpc" in lines["jupyter"].fix
    assert lines.outcome("extension") == "skipped" and lines.outcome("given-back") == "ok"


async def test_an_extension_that_is_older(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = at_home(cluster.laptop("alice", "older"), monkeypatch)
    old = cluster.home("alice") / "old/jupyter_hpc-0.0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: jupyter-hpc\nVersion: 0.0.1\n")
    setup = [*cluster.env_setup, "export PYTHONPATH=$HOME/old"]
    try:
        direct: dict[str, Value] = {"transport": "direct"}
        profile = profile_at(laptop, environment={"setup": setup}, jupyter=direct)
        lines = await look(profile)
    finally:
        shutil.rmtree(old.parent)
    assert lines.failed == ["extension"], lines.not_ok
    assert "jupyter-hpc 0.0.1 in the job is older than" in lines["extension"].text
    assert f"pip install --upgrade jupyter-hpc=={__version__}" in lines["extension"].fix
    assert re.search(r"direct reaches port \d+ of the node", lines["transport"].text)
    nothing_is_left(cluster)


async def test_a_full_disk_of_the_node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop = at_home(cluster.laptop("alice", "tmp"), monkeypatch)
    nothing_is_left(cluster)  # a server that still ends would not find its folder any more
    cluster.run("cpu01", ["mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "none", "/tmp"])
    try:
        cluster.run("cpu01", ["sh", "-c", "head -c 200000 /dev/zero > /tmp/full"])
        lines = await look(profile_at(laptop))
    finally:
        cluster.run("cpu01", ["umount", "/tmp"], check=True)
    assert lines.failed == ["node-tmp"], lines.not_ok
    assert "No space left on device" in lines["node-tmp"].text and lines["node-tmp"].fix
    nothing_is_left(cluster)


async def test_a_home_that_the_node_can_only_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = at_home(cluster.laptop("alice", "home"), monkeypatch)
    cluster.run("cpu01", ["mount", "--bind", "/home/alice", "/home/alice"], check=True)
    try:
        cluster.run("cpu01", ["mount", "-o", "remount,bind,ro", "/home/alice"], check=True)
        lines = await look(profile_at(laptop))
    finally:
        cluster.run("cpu01", ["umount", "--lazy", "/home/alice"], check=True)
    assert lines.failed == ["node-home"], lines.not_ok
    assert "Read-only file system" in lines["node-home"].text
    assert "read_only = true" in lines["node-home"].fix and lines.outcome("jupyter") == "ok"
    nothing_is_left(cluster)


async def test_a_full_home(healed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop = at_home(healed_cluster.laptop("alice", "full"), monkeypatch)
    healed_cluster.homes.fill("alice")
    lines = await look(profile_at(laptop), job=False)
    assert lines.failed == ["login-home"], lines.not_ok
    assert "No space left" in lines["login-home"].text and "Delete" in lines["login-home"].fix


async def test_a_job_that_does_not_start_is_given_back(
    healed_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = healed_cluster
    laptop = at_home(cluster.laptop("alice", "queue"), monkeypatch)
    taken = ["sbatch", "--exclusive", "--partition=cpu", "--output=/dev/null", "--wrap=sleep 300"]
    taken_by = cluster.run("login1", taken, user="alice", cwd="/tmp", check=True).stdout.split()[-1]
    lines = await look(profile_at(laptop), wait_seconds=2)
    assert lines.failed == ["job"], lines.not_ok
    assert "did not start within 2 s" in lines["job"].text and "--wait" in lines["job"].fix
    assert lines.outcome("given-back") == "ok" and lines.outcome("jupyter") == "skipped"
    assert cluster.jobs() == [taken_by]


async def test_a_site_that_forbids_a_lot(
    cluster_with: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No forwarding, no SSH to nodes, and jupyter-hpc is not installed there."""
    cluster = cluster_with(login_forwarding=False, node_ssh="denied", product_installed=False)
    laptop = at_home(cluster.laptop("alice", "strict"), monkeypatch)
    lines = await look(profile_at(laptop))
    assert lines.outcome("forwarding") == "note", lines.words("forwarding")
    assert "forbids forwarding" in lines["forwarding"].text and lines["forwarding"].fix
    assert lines.outcome("transport") == "ok" and "srun reaches" in lines["transport"].text
    assert "ssh: " in lines["transport"].text and "login-ssh: " in lines["transport"].text
    assert lines.failed == ["extension"], lines.not_ok
    assert "not installed" in lines["extension"].text
    assert f"source {cluster.env_setup[0].split()[1]}" in lines["extension"].fix
    named = await look(profile_at(laptop, jupyter={"transport": "ssh"}))
    assert "transport" in named.failed and 'transport = "auto"' in named["transport"].fix
    named = await look(profile_at(laptop, jupyter={"transport": "direct"}))
    assert "names direct, which does not work" in named["transport"].text, named.not_ok
    nothing_is_left(cluster)


def test_what_is_free_and_what_is_out_of_order(healed_cluster: Cluster) -> None:
    cluster = healed_cluster
    laptop = cluster.laptop("alice", "info")
    laptop.write_profile()
    words = ["sbatch", "--partition=gpu", "--gpus=a100:1", "--output=/dev/null", "--wrap=sleep 99"]
    cluster.run("login1", words, user="alice", cwd="/tmp", check=True)
    drained = ["scontrol", "update", "nodename=cpu01", "state=drain", "reason=broken fan"]
    cluster.run("login1", drained, check=True)
    eventually(lambda: "a100 1 of 2, p4 2 of 2" in run(laptop, "info", "mini").stdout)
    text = run(laptop, "info", "mini").stdout
    assert "cpu01 (cpu): drained, broken fan" in text and "research (default)" in text, text
    told = json.loads(run(laptop, "info", "mini", "--json").stdout)
    assert told["unavailable"][0]["reason"] == "broken fan" and told["problems"] == []
    cluster.stop("login1", "slurmctld")
    failed = run(laptop, "info", "mini")
    assert failed.returncode == 1 and "controller does not answer" in failed.stderr


def test_a_connect_that_fails_names_the_doctor(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice", "hint", knows=())
    laptop.write_profile("mini", {"login": {"port": 4}})
    failed = run(laptop, "connect", "mini", "--json")
    assert failed.returncode == 1
    assert "jupyter-hpc doctor mini" in failed.stderr, failed.stderr
    assert "jupyter-hpc doctor mini" in json.loads(failed.stdout.splitlines()[-1])["hint"]
