"""`setup` on a real cluster, from a bare account; packages are stand-ins of the right names."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop, Value
from tests.connect.real.bare_account import ENV, PROFILE, WHEELS, environment_lines, setup
from tests.connect.real.bare_account import account as account
from tests.connect.real.bare_account import laptop as laptop
from tests.connect.real.sessions import command, connected, environment, pids, run
from tests.connect.setup.stand_ins import broken_in_jobs
from tests.connect.setup.wheels import uv_program, wheel_folder
from tests.waiting import eventually


def _begun(laptop: Laptop, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("setup", "bare", *words), env=environment(laptop), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.timeout(400)
def test_from_a_bare_account_to_an_environment_and_back(
    cluster: Cluster, laptop: Laptop, account: Path
) -> None:
    plan = setup(laptop, "--wheels", WHEELS, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert "Would be run on the login host" in plan.stdout and not (account / ENV).exists()

    words = ["--wheels", WHEELS, "--python", "/home/alice/slow"]
    with _begun(laptop, *words) as first:
        eventually((account / f"{ENV}.d/1").exists, "a build", seconds=60)
        first.kill()
    with _begun(laptop, *words) as second:
        assert second.stdout is not None
        assert "A build runs already on login1" in second.stdout.readline()
        second.send_signal(signal.SIGINT)
        _, err = second.communicate(timeout=60)
    assert second.returncode == 130 and "a build that has begun there goes on" in err, err
    with _begun(laptop, *words) as third:
        assert third.stdout is not None
        assert "A build runs already on login1" in third.stdout.readline()
        (account / "go").touch()
        out, err = third.communicate(timeout=170)
    assert third.returncode == 0, f"{out}\n{err}"
    assert "Installing JupyterLab" in out and re.search(r"Job \d+ is cancelled\.", out)
    assert "It starts on " in out and "JupyterLab 4.2.99" in out
    assert environment_lines(laptop)["setup"] == [f"source /home/alice/{ENV}/bin/activate"]
    assert (account / ".local/share/jupyter/kernels/jupyter-hpc-bare/kernel.json").exists()
    assert (account / ENV / "share/jupyter/labextensions/jupyter-hpc/package.json").exists()
    assert (account / ENV / "etc/jupyter/jupyter_server_config.d/jupyter_hpc.json").exists()
    assert cluster.run("login1", ["squeue", "-h", "-t", "PD,R", "--user=alice"]).stdout == ""

    again = setup(laptop, *words)
    assert "is there already" in again.stdout and "Job " not in again.stdout
    lock = laptop.home / "lock.txt"
    assert setup(laptop, "--export", str(lock)).returncode == 0
    assert "jupyterlab==4.2.99" in lock.read_text() and "jupyter-hpc" not in lock.read_text()

    # Another one is made beside, and the first stays as long as a job may use it.
    asked = ["sbatch", "--parsable", "--time=5", "--output=/dev/null", "--wrap", "sleep 600"]
    job = cluster.run("login1", asked, user="alice").stdout.strip()
    built = setup(laptop, "--wheels", WHEELS, "-f", str(lock), "--no-job")
    assert built.returncode == 0, built.stderr
    assert f"{ENV} is now /home/alice/{ENV}.d/2" in built.stdout
    assert f"{ENV}.d/1 stays: job {job} may use it" in built.stdout
    assert (account / f"{ENV}.d/1/bin/python").exists()
    kernel = account / ".local/share/jupyter/kernels/jupyter-hpc-bare/kernel.json"
    assert f"/home/alice/{ENV}/bin/python" in kernel.read_text()
    cluster.run("login1", ["scancel", job], user="alice")
    cluster.wait_until_idle(60)
    swept = setup(laptop, "--wheels", WHEELS, "-f", str(lock), "--no-job")
    assert f"Removed: /home/alice/{ENV}.d/1, which was in use before" in swept.stdout

    # One that does not start on the node does not come into use.
    broken_in_jobs(account / "wheels")
    failed = setup(laptop, *words)
    assert failed.returncode == 1, failed.stdout
    assert "does not start on" in failed.stderr and "still is" in failed.stderr
    assert (account / ENV).readlink().name == "2"

    gone = setup(laptop, "--remove")
    assert gone.returncode == 0 and "Removed: " in gone.stdout, gone.stderr
    assert not (account / ENV).exists() and not (account / f"{ENV}.d").exists()
    assert not (account / ".local/share/jupyter/kernels/jupyter-hpc-bare").exists()
    assert environment_lines(laptop)["setup"] == []
    assert "Nothing was set up" in setup(laptop, "--remove").stdout


@pytest.mark.faults
@pytest.mark.timeout(400)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_the_job_is_given_back_when_setup_is_ended_and_the_next_goes_on(
    cluster: Cluster, laptop: Laptop, account: Path, sign: signal.Signals
) -> None:
    cluster.run("login1", ["scontrol", "update", "partitionname=cpu", "state=down"], check=True)
    try:
        with _begun(laptop, "--wheels", WHEELS) as first:
            assert first.stdout is not None
            assert any(" waits: " in line for line in first.stdout), "it says what it waits for"
            first.send_signal(sign)
            first.communicate(timeout=60)
        assert first.returncode == (-sign if sign == signal.SIGKILL else 128 + sign)
        eventually(lambda: cluster.jobs() == [], lambda: f"{cluster.jobs()} is given back")
        late = setup(laptop, "--wheels", WHEELS, "--wait", "1s")
    finally:
        cluster.run("login1", ["scontrol", "update", "partitionname=cpu", "state=up"], check=True)
    assert late.returncode == 0, late.stdout + late.stderr
    assert "env.d/1 was built before, and has not been checked yet" in late.stdout
    assert "did not start within 1 s" in late.stderr and "--wait 1h" in late.stderr, late.stderr
    assert cluster.jobs() == [] and f"{ENV} is now " in late.stdout


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_each_fault_is_named(cluster: Cluster, laptop: Laptop, account: Path) -> None:
    def fault(*words: str) -> str:
        done = setup(laptop, "--no-job", *words)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr

    assert "no Python called 'python9'" in fault("--python", "python9")
    assert "Python 3.6.8 on login1 is too old" in fault("--python", "/home/alice/old")
    wrong = fault("--module", "python/9")
    assert "The module 'python/9' cannot be loaded" in wrong and "There are: python/3.11" in wrong
    assert "neither conda nor mamba" in fault("--style", "conda")
    assert "has no uv on its PATH" in fault("--style", "uv")
    assert "/nowhere is not there" in fault("--wheels", "/nowhere")
    (account / "wheels" / "rich-99.0.0-py3-none-any.whl").unlink()
    assert "no package 'rich" in fault("--wheels", WHEELS)
    assert "does not reach the Internet" in fault("--style", "venv")
    (account / "foreign").mkdir()
    (account / "foreign/file").write_text("mine")
    os.chown(account / "foreign", account.stat().st_uid, account.stat().st_gid)
    assert "was not made by jupyter-hpc" in fault("--prefix", "foreign")
    assert (account / "foreign/file").read_text() == "mine"
    assert environment_lines(laptop)["setup"] == []


@pytest.mark.timeout(200)
def test_a_full_home_is_named(cluster: Cluster, laptop: Laptop, account: Path) -> None:
    cluster.homes.fill("alice")
    try:
        done = setup(laptop, "--no-job", "--wheels", WHEELS)
        assert done.returncode == 1 and "The disk on login1 is full" in done.stderr, done.stderr
    finally:
        cluster.homes.restore("alice")


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_no_room_at_any_stage_leaves_the_environment_in_use(
    cluster: Cluster, laptop: Laptop, account: Path
) -> None:
    small = "/home/alice/small"

    def mounted(*options: str) -> None:
        how = ",".join(["mode=700,uid=61001,gid=61001", *options])
        done = cluster.run("login1", ["mount", "-t", "tmpfs", "-o", how, "tmpfs", small])
        assert done.returncode == 0, done.stderr

    def used(what: str) -> int:
        asked = ["df", f"--output={what}", "--block-size=1K", small]
        shown = cluster.run(
            "login1", asked if what == "used" else ["df", f"--output={what}", small]
        )
        return int(shown.stdout.split()[-1])

    def found() -> list[str]:
        shown = cluster.run("login1", ["ls", "-A", f"{small}/env.d"], user="alice")
        link = cluster.run("login1", ["readlink", f"{small}/env"], user="alice")
        return [*shown.stdout.split(), link.stdout.strip()]

    cluster.run("login1", ["mkdir", "small"], user="alice")
    mounted("size=200m", "nr_inodes=20000")
    words = ("--prefix", "small/env", "--wheels", WHEELS, "--no-job")
    try:
        first = setup(laptop, *words)
        assert first.returncode == 0, first.stdout + first.stderr
        before, size, files = found(), used("used"), used("iused")
        assert before[-1] == "env.d/1"
        # At the first folder, while Python makes its environment, and while pip installs.
        for room in (4, 2_000, size - 1_000):
            mounted("remount", f"size={size + room}k", "nr_inodes=20000")
            full = setup(laptop, *words, "--package", "rich")
            assert full.returncode == 1 and "The disk on login1 is full" in full.stderr, full.stderr
            assert "small/env is in use as before" in full.stderr and found() == before
        for room in (1, 300, files - 60):
            mounted("remount", "size=200m", f"nr_inodes={files + room}")
            full = setup(laptop, *words, "--package", "rich")
            assert full.returncode == 1 and "no free inodes" in full.stderr, (room, full.stderr)
            assert "small/env is in use as before" in full.stderr and found() == before
        mounted("remount", "size=200m", "nr_inodes=20000")
        good = setup(laptop, *words, "--package", "rich")
        assert good.returncode == 0 and found()[-1] == "env.d/2", good.stderr
    finally:
        cluster.run("login1", ["umount", "--lazy", small])
        cluster.run("login1", ["rmdir", "small"], user="alice")


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_one_packed_file_is_mounted_for_each_job(
    cluster: Cluster, laptop: Laptop, account: Path
) -> None:
    if not all(map(shutil.which, ("mksquashfs", "squashfuse", "fusermount"))):
        pytest.skip("squashfs-tools and squashfuse are not installed")
    made = setup(laptop, "--style", "packed", "--wheels", WHEELS)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "Packing it into one file" in made.stdout and "It starts on" in made.stdout
    env = account / f"{ENV}.d/1"
    assert Path(f"{env}.squashfs").exists() and len(list(env.rglob("*"))) == 3
    assert environment_lines(laptop)["setup"] == [f"source /home/alice/{ENV}/bin/activate"]
    # Two jobs side by side, the first of which ends before the second one asks again.
    say = f"source {ENV}/bin/activate && python -c 'import jupyterlab, sys; print(sys.prefix)'"
    script = f"#!/bin/bash\n{say}\nwhile [ ! -e go ]; do sleep 0.2; done\n{say}\n"
    asked = ["sbatch", "--parsable", "--time=5", "--output=job-%j.out"]
    jobs = [
        cluster.run("login1", asked, user="alice", input=script).stdout.strip() for _ in range(2)
    ]

    def lines(job: str) -> list[str]:
        out = account / f"job-{job}.out"
        return out.read_text().splitlines() if out.exists() else []

    def told() -> str:
        queue = cluster.run("login1", ["squeue"]).stdout
        return f"both jobs run in it: {[lines(job) for job in jobs]} {queue}"

    eventually(lambda: all(lines(job) for job in jobs), told, seconds=60)
    cluster.run("login1", ["scancel", jobs[0]], user="alice")
    eventually(lambda: jobs[0] not in " ".join(cluster.jobs()), "one job ends", seconds=60)
    (account / "go").touch()
    eventually(lambda: len(lines(jobs[1])) == 2, "the other one keeps it", seconds=60)
    assert len(set(lines(jobs[1]))) == 1 and lines(jobs[0])[0] != lines(jobs[1])[0]
    # What the jobs have left mounted is taken away by the next.
    eventually(lambda: cluster.jobs() == [], "no job is left", seconds=60)
    third = ["srun", "bash", "-c", f"{say}; ls /tmp | grep jupyter-hpc-env"]
    said = cluster.run("login1", third, user="alice", timeout=60).stdout.splitlines()
    assert len(said) == 2 and said[0] == f"/tmp/{said[1]}", said
    gone = setup(laptop, "--style", "packed", "--remove")
    assert gone.returncode == 0 and not (account / f"{ENV}.d").exists(), gone.stderr
    cluster.run("login1", ["sh", "-c", "rm -f job-*.out go"], user="alice")


@pytest.mark.faults
@pytest.mark.parametrize("style", ["uv", "venv", "no-index"])
@pytest.mark.timeout(900)
def test_from_a_bare_account_to_a_session_with_panels(
    cluster: Cluster, account: Path, style: str
) -> None:
    """With the real packages, and nothing of the cluster's own Python but the interpreter.

    "no-index" is the way of sites with wheels of their own: pip's settings come with a login
    shell and its module, and the profile only says `style = "wheels"`.
    """
    shutil.rmtree(account / "wheels")
    shutil.copytree(wheel_folder(), account / "wheels")
    (account / "bin").mkdir()
    shutil.copy(uv_program(), account / "bin/uv")
    laptop = cluster.laptop("alice", "setup-whole")
    words: list[str] = []
    if style == "no-index":
        (account / "wheels/pip.conf").write_text(f"[global]\nfind-links = {WHEELS}\n")
        settings = f"{PROFILE}export PIP_CONFIG_FILE={WHEELS}/pip.conf\n"
        (account / ".bash_profile").write_text(settings)
        chosen: dict[str, Value] = {"style": "wheels", "modules": ["python/3.11"]}
    else:
        (account / ".bash_profile").write_text('PATH="$HOME/bin:$PATH"\n')
        chosen, words = {"wheels": WHEELS}, ["--style", style]
    laptop.write_profile("mini", {"environment": {"setup": [], **chosen}})
    done = run(laptop, "setup", "mini", *words, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "It starts on " in done.stdout
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 180)
        token = run(laptop, "url", "mini").stdout.strip().partition("token=")[2]
        headers = {"Authorization": f"token {token}"}
        status, page, _ = session.get("/lab", headers)
        assert status == 200 and b'"name": "jupyter-hpc"' in page
        # The panels ask these; what answers is the package that was sent along.
        for path, wanted in (("session", "job"), ("jobs", "jobs"), ("storage", "places")):
            status, body, _ = session.get(f"/jupyter-hpc/{path}", headers)
            assert status == 200 and wanted in json.loads(body), (path, body)
        assert pids(cluster, "gpu01", f"{ENV}.d/1/bin/") or pids(cluster, "cpu01", f"{ENV}.d/1/")
        served = account / f"{ENV}.d/1/share/jupyter/labextensions/jupyter-hpc/package.json"
        assert served.exists()
        # A session keeps what it has begun with.
        again = run(laptop, "setup", "mini", *words, "--package", "nbformat", timeout=600)
        assert f"{ENV} is now /home/alice/{ENV}.d/2" in again.stdout, again.stdout + again.stderr
        assert f"{ENV}.d/1 stays: job" in again.stdout
        assert session.get("/jupyter-hpc/jobs", headers)[0] == 200
    assert run(laptop, "setup", "mini", "--remove", timeout=300).returncode == 0
