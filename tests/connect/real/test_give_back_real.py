"""Starts that fail on a real cluster: the cause is the true one, and the queue is empty."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import ENV_SETUP, Laptop
from tests.connect.real.sessions import connected, pids, run
from tests.waiting import eventually

NODE = "cpu01"

#: A PATH on which there is a server and all that launch.sh needs, but no Python.
NO_PYTHON = [
    "mkdir -p ~/no-python; cd ~/no-python; for tool in cat head id ln mkdir mv rm sed sleep tail "
    "tr uname date; do ln -sf $(command -v $tool) .; done",
    "printf '#!/bin/sh\\n' >~/no-python/my-lab; chmod +x ~/no-python/my-lab; PATH=~/no-python",
]


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    laptop = cluster.laptop("alice", "give-back")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    yield laptop
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


@contextlib.contextmanager
def on_node(cluster: Cluster, broken: str, whole: str) -> Iterator[None]:
    """Something is broken on the node, and whole again afterwards."""
    cluster.run(NODE, ["sh", "-c", broken], check=True)
    try:
        yield
    finally:
        cluster.run(NODE, ["sh", "-c", whole], check=True)


def refused(cluster: Cluster, laptop: Laptop, *words: str) -> str:
    """What a connect says that fails; its job is cancelled, which it says, too."""
    failed = run(laptop, "connect", "mini", *words)
    assert failed.returncode == 1, failed.stderr
    said = failed.stderr
    assert "was cancelled." in said, said
    cluster.wait_until_idle(20)
    return said


@pytest.mark.parametrize(
    ("setup", "command", "cause"),
    [
        (["true", "echo a hint; false"], [], "Environment line 2 failed on the node"),
        (["exit 0"], [], "Environment line 1 ended the shell"),
        (["true", "exec true"], [], "Environment line 2 ended the shell"),
        (["true"], [], "jupyter was not found on the node"),
        (ENV_SETUP, ["jupyter", "nolab"], "Jupyter command `jupyter-nolab` not found."),
        (NO_PYTHON, ["my-lab"], "a Python of 3.9 or newer was not found on the node"),
        (ENV_SETUP, ["jupyter", "lab", "--no-such=1", "--ip"], "Jupyter ended as soon as it was"),
    ],
    ids=["line", "exit", "exec", "jupyter", "lab", "python", "options"],
)
def test_a_start_that_fails_gives_the_job_back(
    cluster: Cluster, laptop: Laptop, setup: list[str], command: list[str], cause: str
) -> None:
    jupyter = {"command": command or ["jupyter", "lab"]}
    laptop.write_profile("mini", {"environment": {"setup": list(setup)}, "jupyter": jupyter})
    assert cause in refused(cluster, laptop)


@pytest.mark.faults
def test_a_limit_on_processes_is_named(cluster: Cluster, laptop: Laptop) -> None:
    """Bash tries for a quarter of a minute; Jupyter's own threads fail at once."""
    laptop.write_profile("mini", {"environment": {"setup": [*ENV_SETUP, "ulimit -u 1"]}})
    assert "(ulimit -u" in refused(cluster, laptop)


def test_who_leaves_during_the_start_is_told_how_to_come_back(
    cluster: Cluster, laptop: Laptop
) -> None:
    laptop.write_profile("mini", {"environment": {"setup": ["sleep 30"]}})
    with connected(laptop, "mini") as session:
        job = session.wait_for("starting")["job_id"]
        assert session.end() == 143
        ways = "Come back: jupyter-hpc connect mini. End it: jupyter-hpc stop mini."
        assert f"Job {job} stays. {ways}" in session.errors
    assert cluster.jobs() == [job]


def test_a_node_that_is_not_reached_gives_the_job_back(cluster: Cluster, laptop: Laptop) -> None:
    cluster.hosts[NODE].stop("sshd")
    try:
        assert NODE in refused(cluster, laptop, "--via", "ssh")
    finally:
        cluster.hosts[NODE].start("sshd")


@pytest.mark.parametrize("via", ["ssh", "srun"])
def test_a_home_that_the_node_cannot_write_gives_the_job_back(
    cluster: Cluster, laptop: Laptop, via: str
) -> None:
    lock = "mount --bind /home/alice /home/alice && mount -o remount,bind,ro /home/alice"
    with on_node(cluster, lock, "umount -l /home/alice"):
        said = refused(cluster, laptop, "--via", via)
    assert "read-only" in said.lower()


def test_a_node_without_the_home_gives_the_job_back(cluster: Cluster, laptop: Laptop) -> None:
    hide = "mount -t tmpfs -o mode=755 tmpfs /home"
    with on_node(cluster, hide, "umount -l /home"):
        said = refused(cluster, laptop, "--via", "srun")
    assert "the home folder of the login host is not there" in said


FULL = "mount -t tmpfs -o size=64k,mode=1777 tmpfs {0} && head -c 1M /dev/zero >{0}/x; true"


def test_a_full_tmp_goes_on_in_shared_memory(cluster: Cluster, laptop: Laptop) -> None:
    with on_node(cluster, FULL.format("/tmp"), "umount -l /tmp"):
        with connected(laptop, "mini") as session:
            session.wait_for("ready")
            said = [event["text"] for event in session.events if event["event"] == "warning"]
            assert any(f"/tmp of {NODE} cannot be written" in text for text in said)
            assert session.get("/api")[0] == 200
        run(laptop, "stop", "mini")
        with on_node(cluster, FULL.format("/dev/shm"), "umount -l /dev/shm"):
            cluster.run("login1", ["scancel", "--user=alice"])
            cluster.wait_until_idle(20)
            said_then = refused(cluster, laptop)
        assert "No folder for sockets could be written" in said_then


@contextlib.contextmanager
def bashrc(cluster: Cluster, text: bytes) -> Iterator[None]:
    """What alice's shell does first, on every host."""
    file = cluster.home("alice") / ".bashrc"
    kept = file.read_bytes() if file.exists() else b""
    file.write_bytes(text)
    try:
        yield
    finally:
        file.write_bytes(kept)


def test_a_job_whose_number_a_cut_has_lost_is_given_back(cluster: Cluster, laptop: Laptop) -> None:
    """The connection ends after salloc was started and before it said which job it has."""
    own = {"extra": ["--comment=a site's own"]}
    laptop.write_profile("mini", {"environment": {"setup": ["false"]}, "allocation": own})
    asked, slow = cluster.home("alice") / "asked", cluster.home("alice") / "slow"
    asked.unlink(missing_ok=True)
    slow.mkdir(exist_ok=True)
    (slow / "salloc").write_text(
        f'#!/bin/sh\ntouch ~/asked; sleep 2; exec {shutil.which("salloc")} "$@"\n'
    )
    (slow / "salloc").chmod(0o755)
    with bashrc(cluster, b"PATH=~/slow:$PATH\n"), connected(laptop, "mini") as session:
        eventually(asked.exists, seconds=60)
        assert cluster.kill_sessions("login1", "alice")
        assert session.wait_exit(90) == 1
        assert "Environment line 1 failed" in session.errors
        assert "was cancelled." in session.errors, session.errors
    cluster.wait_until_idle(20)
    shutil.rmtree(slow)


def test_a_step_that_slurm_refuses_gives_the_job_back(cluster: Cluster, laptop: Laptop) -> None:
    """Slurm's own no: the user's shell asks for more processors than the job has."""
    with bashrc(cluster, b"export SRUN_CPUS_PER_TASK=64\n"):
        said = refused(cluster, laptop, "--via", "srun")
    assert "srun: error: Unable to create step for job" in said
    assert "More processors requested than permitted" in said


#: A Python that runs everything but the relay, which starts and does nothing.
STUCK = [
    *ENV_SETUP,
    "real=$(command -v python3); mkdir -p ~/stuck; cd ~/stuck",
    """printf '%s\\n' '#!/bin/sh' 'case "$*" in *relay.py*--serve*) exec sleep 600;; esac' """
    """"exec $real "'"$@"' >python3""",
    """printf '%s\\n' '#!/bin/sh' 'exec jupyter lab "$@"' >my-lab; chmod +x my-lab python3""",
    "PATH=~/stuck:$PATH; relay_ticks=100; cd",
]


def test_a_relay_that_never_answers_gives_the_job_back(cluster: Cluster, laptop: Laptop) -> None:
    laptop.write_profile(
        "mini", {"environment": {"setup": STUCK}, "jupyter": {"command": ["my-lab"]}}
    )
    said = refused(cluster, laptop)
    assert "The relay, through which JupyterLab is reached, was started on the node" in said
    assert "/home/alice/stuck/python3 and has not answered" in said
    assert not pids(cluster, NODE, "jupyter-lab")


def test_a_login_shell_that_prints_a_megabyte_does_not_look_like_forbidden_ssh(
    cluster: Cluster, laptop: Laptop
) -> None:
    noise = b"head -c 1500000 /dev/zero | tr '\\0' x\nhead -c 1500000 /dev/zero >&2\n"
    with bashrc(cluster, noise):
        with connected(laptop, "mini") as session:
            assert session.wait_for("ready")["transport"] == "ssh"
        run(laptop, "stop", "mini")


def test_keep_keeps_the_job_and_the_next_connect_never_cancels_it(
    cluster: Cluster, laptop: Laptop
) -> None:
    laptop.write_profile("mini", {"environment": {"setup": ["false"]}})
    kept = run(laptop, "connect", "mini", "--keep")
    (job,) = cluster.jobs()
    ways = "Come back: jupyter-hpc connect mini. End it: jupyter-hpc stop mini."
    assert kept.returncode == 1 and f"Job {job} stays (--keep). {ways}" in kept.stderr
    adopted = run(laptop, "connect", "mini")
    assert adopted.returncode == 1 and f"Job {job} stays. {ways}" in adopted.stderr
    assert cluster.jobs() == [job]
    laptop.write_profile("mini")
    with connected(laptop, "mini") as session:
        assert session.wait_for("ready")["job_id"] == job


def test_who_is_killed_while_starting_is_found(cluster: Cluster, laptop: Laptop) -> None:
    """Between the job's grant and the first answer: by status, by stop and by the next connect."""
    laptop.write_profile("mini", {"environment": {"setup": [*ENV_SETUP, "sleep 6"]}})

    def killed_while_starting() -> str:
        with connected(laptop, "mini") as session:
            job = str(session.wait_for("starting")["job_id"])
            session.process.kill()
            session.process.wait(10)
        assert cluster.jobs() == [job]
        return job

    job = killed_while_starting()
    here = run(laptop, "status").stdout
    assert f"job {job}" in here and "jupyter-hpc connect mini" in here
    assert f"mini: running, not connected here, job {job}" in run(laptop, "status", "mini").stdout
    assert run(laptop, "stop", "mini").stdout == f"mini: Job {job} was cancelled, as asked.\n"
    cluster.wait_until_idle(20)

    job = killed_while_starting()
    began = time.monotonic()
    with connected(laptop, "mini") as session:
        assert session.wait_for("starting")["job_id"] == job
        assert time.monotonic() - began < 30
        # The lid closes now, and the network has forgotten the connection when it is opened.
        session.process.send_signal(signal.SIGSTOP)
        assert cluster.kill_sessions("login1", "alice")
        session.process.send_signal(signal.SIGCONT)
        assert session.wait_for("ready")["job_id"] == job
        assert session.get("/api")[0] == 200
        assert len(pids(cluster, NODE, "jupyter-lab")) == 1
