"""Every switch makes the cluster behave as the sites that it stands for."""

from __future__ import annotations

from collections.abc import Sequence

import asyncssh
import pytest

from tests.cluster import packages
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory, require
from tests.cluster.switches import Switches
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def guarded(cluster_with: ClusterFactory) -> Cluster:
    """Nodes that only let people in who have a job there, each job with its own /tmp."""
    return cluster_with(accounting=False, adopt=True, private_tmp=True)


@pytest.fixture(scope="module")
def strict(cluster_with: ClusterFactory) -> Cluster:
    """A login host that allows little, and nodes that nobody may log in to."""
    return cluster_with(
        accounting=False,
        node_ssh="denied",
        login_forwarding=False,
        kill_at_logout=True,
        inactive_limit=30,
        batch_only=True,
        product_installed=False,
        slurm_lines=("MaxArraySize=77",),
    )


@pytest.fixture(scope="module")
def asking(cluster_with: ClusterFactory) -> Cluster:
    """A login host that asks for password and code; its nodes only know the login host's keys."""
    return cluster_with(accounting=False, mfa=True, laptop_key_on_nodes=False)


def test_it_starts_without_accounting(strict: Cluster) -> None:
    assert strict.run("login1", ["sacct"], user="alice").returncode == 1
    assert "Submitted" in strict.run("login1", ["sbatch", "--wrap=true"], user="carol").stdout


def test_ssh_to_a_node_needs_a_job_there(guarded: Cluster) -> None:
    laptop = guarded.laptop()
    refused = laptop.ssh("gpu01", "true")
    assert refused.returncode == 255
    assert "no active jobs on this node" in refused.stderr
    asked = ["salloc", "--no-shell", "-p", "gpu", "--gres=gpu:a100:1"]
    guarded.run("login1", asked, user="alice", check=True)
    try:
        look = "cat /proc/self/cgroup; cat /dev/nvidia1"
        # The step that takes sessions in may begin after the job.
        eventually(lambda: "/step_extern" in laptop.ssh("gpu01", look).stdout)
        assert "Operation not permitted" in laptop.ssh("gpu01", look).stderr
        assert guarded.laptop("mallory").ssh("gpu01", "true").returncode == 255
    finally:
        guarded.heal()


def test_a_job_has_its_own_tmp(guarded: Cluster) -> None:
    asked = ["srun", "-p", "cpu", "sh", "-c", "touch /tmp/mine; ls /tmp"]
    answer = guarded.run("login1", asked, user="alice")
    assert answer.stdout == "mine\n", answer.stderr
    assert guarded.run("cpu01", ["ls", "/tmp"]).stdout == ""


def test_nodes_can_refuse_every_login(strict: Cluster) -> None:
    inside = strict.run("login1", ["ssh", "-o", "BatchMode=yes", "gpu01", "true"], user="alice")
    assert inside.returncode == 255
    assert "Permission denied" in inside.stderr


def test_the_login_host_can_forbid_forwarding(strict: Cluster) -> None:
    laptop = strict.laptop()
    assert laptop.ssh("login1", "true").returncode == 0
    through = laptop.ssh("gpu01", "true")
    assert "administratively prohibited" in through.stderr


def test_detached_processes_end_with_their_session(strict: Cluster) -> None:
    def sleeping(number: int) -> bool:
        processes = strict.hosts["login1"].processes()
        return any(process.argv == ("sleep", str(number)) for process in processes)

    start = "setsid nohup sleep 5151 </dev/null >/dev/null 2>&1 &"
    running = "until pgrep -x -f 'sleep 5151'; do sleep 0.05; done"
    said = strict.laptop().ssh("login1", f"{start}\n{running}")
    assert said.stdout.strip().isdigit(), "it ran while the session was open"
    eventually(lambda: not sleeping(5151))
    strict.run("login1", ["sh", "-c", "setsid sleep 5252 >/dev/null 2>&1 &"], user="alice")
    eventually(lambda: sleeping(5252))
    strict.laptop().ssh("login1", "true")
    assert sleeping(5252), "processes of another session live on"


def test_slurm_knows_the_inactive_limit_and_further_lines(strict: Cluster) -> None:
    shown = strict.run("login1", ["scontrol", "show", "config"]).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "InactiveLimit = 30 sec" in lines
    assert "MaxArraySize = 77" in lines


def test_jobs_without_a_script_can_be_refused(strict: Cluster) -> None:
    refused = strict.run("login1", ["salloc", "--no-shell"], user="alice")
    assert refused.returncode == 1
    assert "Interactive jobs are not allowed here" in refused.stderr
    sent = strict.run("login1", ["sbatch", "--parsable", "--wrap=sleep 600"], user="alice")
    step = ["srun", f"--jobid={sent.stdout.strip()}", "--overlap", "-n1", "hostname"]
    eventually(lambda: strict.run("login1", step, user="alice").stdout == "cpu01\n")
    strict.heal()


def test_jupyterlab_can_be_there_without_the_product(strict: Cluster) -> None:
    script = "import jupyterlab; import jupyter_hpc"
    said = strict.run("cpu01", ["/opt/hpc-env/bin/python", "-c", script], user="alice")
    assert "No module named 'jupyter_hpc'" in said.stderr


class _Person(asyncssh.SSHClient):
    """Answers the login host's questions once, and gives up when it asks again."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.questions: list[str] = []

    def kbdint_auth_requested(self) -> str | None:
        return "" if self.answers else None

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        if len(self.answers) < len(prompts):
            return None
        self.questions += [text for text, _ in prompts]
        return [self.answers.pop(0) for _ in prompts]


async def _log_in(
    cluster: Cluster, answers: list[str]
) -> tuple[asyncssh.SSHClientConnection, list[str]]:
    person = _Person(answers)
    connection = await asyncssh.connect(
        cluster.slot.login_address,
        username="alice",
        config=None,
        known_hosts=str(cluster.laptop().known_hosts),
        client_keys=None,
        agent_path=None,
        client_factory=lambda: person,
    )
    return connection, person.questions


async def test_the_login_host_can_ask_for_password_and_code(asking: Cluster) -> None:
    assert "keyboard-interactive" in asking.laptop().ssh("login1", "true").stderr
    connection, questions = await _log_in(asking, [asking.password, asking.code()])
    async with connection:
        said = await connection.run("hostname")
    assert said.stdout == "login1\n"
    assert questions == ["Password: ", "Verification code: "]
    assert asking.authentications(user="alice") == 1


@pytest.mark.parametrize("wrong", ["password", "code"])
async def test_a_wrong_answer_is_refused(asking: Cluster, wrong: str) -> None:
    before = asking.failed_authentications(user="alice")
    answers = {"password": asking.password, "code": asking.code()}
    answers[wrong] = "".join(reversed(answers[wrong] + "1"))
    with pytest.raises(asyncssh.PermissionDenied):
        await _log_in(asking, [*answers.values()])
    eventually(lambda: asking.failed_authentications(user="alice") == before + 1)


async def test_nodes_can_know_only_the_login_hosts_keys(asking: Cluster) -> None:
    inside = asking.run("login1", ["ssh", "gpu01", "hostname"], user="alice")
    assert inside.stdout == "gpu01\n"
    laptop = asking.laptop()
    connection, _ = await _log_in(asking, [asking.password, asking.code()])
    async with connection:
        with pytest.raises(asyncssh.PermissionDenied):
            await connection.connect_ssh(
                "gpu01",
                username="alice",
                config=None,
                known_hosts=str(laptop.known_hosts),
                client_keys=[str(laptop.key)],
                agent_path=None,
            )


def test_nodes_can_be_without_sshd(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, node_ssh="closed")
    refused = cluster.run("login1", ["ssh", "gpu01", "true"], user="alice")
    assert "Connection refused" in refused.stderr
    assert cluster.laptop().ssh("login1", "true").returncode == 0


def test_what_is_missing_is_a_skip_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.DEBIAN_PACKAGES, "slurm-pro", "/none")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs the Debian packages slurm-pro"):
        require(Switches())
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="slurm-pro; with CI=true this is a failure"):
        require(Switches())
