"""The security model on the real cluster: changed keys, hostile text and traps."""

from __future__ import annotations

import http.client
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.real.secured import HOSTILE, NODE, alices_laptop, end_jobs
from tests.connect.real.sessions import command, connected, environment, record, run
from tests.connect.real.terminal import Terminal
from tests.waiting import eventually, throughout


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    """For tests with sessions of their own."""
    yield alices_laptop(cluster, "attacked")
    end_jobs(cluster)


# -- host keys ------------------------------------------------------------------------------


def test_a_changed_login_key_ends_everything(cluster: Cluster, laptop: Laptop) -> None:
    before = cluster.authentications(), cluster.failed_authentications()
    jobs = cluster.jobs()
    with cluster.changed_host_key("login1"):
        failed = run(laptop, "connect", "mini")
    assert failed.returncode not in (0, 2)
    assert "host key of login1 has changed" in failed.stderr
    assert str(laptop.known_hosts) in failed.stderr
    assert (cluster.authentications(), cluster.failed_authentications()) == before
    assert cluster.jobs() == jobs


def test_a_changed_node_key_ends_everything(cluster: Cluster, laptop: Laptop) -> None:
    """No other way is tried: somebody may sit between the login host and the node."""
    before = cluster.authentications(NODE)
    with cluster.changed_host_key(NODE):
        failed = run(laptop, "connect", "mini")
    assert failed.returncode not in (0, 2)
    assert f"host key of {NODE} has changed" in failed.stderr
    assert cluster.authentications(NODE) == before
    assert cluster.run(NODE, ["pgrep", "-u", "alice", "-f", "jupyter"]).stdout == ""


def test_a_key_that_changes_during_the_session_is_not_accepted(
    cluster: Cluster, laptop: Laptop
) -> None:
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 60)
        before = cluster.authentications()
        with cluster.changed_host_key("login1"):
            cluster.kill_sessions("login1", "alice")
            said = session.wait_for("warning")["text"]
            assert "host key of login1 has changed" in said
            status, body, _ = session.get("/lab", {"Accept": "text/html"})
            assert status == 200 and b"has changed" in body
            throughout(lambda: cluster.authentications() == before, seconds=3)
        assert session.process.poll() is None


# -- hostile text ---------------------------------------------------------------------------


@pytest.fixture
def hostile_slurm(cluster: Cluster) -> Iterator[Callable[[str, str], None]]:
    """hostile_slurm("squeue", script) puts a program of that name first on alice's PATH."""
    home, uid = cluster.home("alice"), user_named("alice").uid
    kept = (home / ".bashrc").read_bytes() if (home / ".bashrc").exists() else None

    def make(name: str, script: str) -> None:
        (home / "bad").mkdir(exist_ok=True)
        program = home / "bad" / name
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        (home / ".bashrc").write_text("PATH=$HOME/bad:$PATH\n", encoding="utf-8")
        os.chown(home / ".bashrc", uid, uid)

    yield make
    shutil.rmtree(home / "bad", ignore_errors=True)
    if kept is None:
        (home / ".bashrc").unlink(missing_ok=True)
    else:
        (home / ".bashrc").write_bytes(kept)


def _harmless(shown: str) -> None:
    assert "onerror" in shown, "the hostile text did not come through at all"
    for piece in ("\x1b]", "\x07", "\x1b[31m<", "\u202e"):
        assert piece not in shown


def _printf(text: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in text.encode())


def test_hostile_reasons_are_only_text(
    cluster: Cluster, laptop: Laptop, hostile_slurm: Callable[[str, str], None]
) -> None:
    hostile_slurm(
        "squeue", f"""/usr/bin/squeue "$@" | sed "s/Resources/$(printf '{_printf(HOSTILE)}')/g" """
    )
    blocker = ["salloc", "--no-shell", "-p", "cpu", "--exclusive", "-t", "5"]
    cluster.run("login1", blocker, user="mallory", check=True)
    with Terminal(command("connect", "mini", "--no-browser"), environment(laptop)) as terminal:
        terminal.expect("onerror")
        session = _Port(record(laptop, "mini")["port"])
        page = session.get("/lab", {"Accept": "text/html"})
        status = session.get("/_jupyter-hpc/status")
        for body in (page, status):
            assert "onerror" in body and "<img" not in body and "\x1b" not in body
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        terminal.wait()
        _harmless(terminal.shown)


@pytest.mark.parametrize("name", ["-oProxyCommand=owned", "$(touch${IFS}owned)"])
def test_a_node_with_a_hostile_name_is_not_approached(
    laptop: Laptop, hostile_slurm: Callable[[str, str], None], name: str
) -> None:
    hostile_slurm("squeue", f"/usr/bin/squeue \"$@\" | sed 's/{NODE}/{name}/g'")
    failed = run(laptop, "connect", "mini")
    assert failed.returncode not in (0, 2)
    assert f"runs on '{name}', which is no name of a host" in failed.stderr


def test_hostile_messages_of_slurm_are_only_text(
    laptop: Laptop, hostile_slurm: Callable[[str, str], None]
) -> None:
    for name in ("salloc", "sbatch"):
        hostile_slurm(name, f"printf '{name}: error: {_printf(HOSTILE)}\\n' >&2; exit 1")
    with Terminal(command("connect", "mini", "--no-browser"), environment(laptop)) as terminal:
        assert terminal.wait(60) != 0
        _harmless(terminal.shown)


def test_a_step_that_cannot_start_is_said_at_once(
    cluster: Cluster, laptop: Laptop, hostile_slurm: Callable[[str, str], None]
) -> None:
    hostile_slurm("srun", f"printf 'srun: error: {_printf(HOSTILE)}\\n' >&2; exit 1")
    failed = run(laptop, "connect", "mini")
    assert failed.returncode not in (0, 2)
    assert "No step could be started in job" in failed.stderr
    _harmless(failed.stderr)
    assert "was cancelled." in failed.stderr
    cluster.wait_until_idle(20)


def test_hostile_output_of_the_environment_is_only_text(laptop: Laptop) -> None:
    line = f"printf '{_printf(HOSTILE)}'; false"
    laptop.write_profile("mini", {"environment": {"setup": [line]}})
    with Terminal(command("connect", "mini", "--no-browser"), environment(laptop)) as terminal:
        assert terminal.wait(60) != 0
        _harmless(terminal.shown)


def test_hostile_banners_and_logs_are_only_text(cluster: Cluster, laptop: Laptop) -> None:
    config = cluster.hosts["login1"].file("/etc/ssh/sshd_config")
    kept = config.read_text()
    banner = cluster.hosts["login1"].file("/etc/ssh/banner")
    banner.write_text(f"first {HOSTILE}\nsecond\n", encoding="utf-8")
    try:
        config.write_text(f"Banner /etc/ssh/banner\n{kept}")
        _restart_sshd(cluster)
        setup = f"printf '{_printf(HOSTILE)}\\n'"
        laptop.write_profile("mini", {"environment": {"setup": [setup, *cluster.env_setup]}})
        with Terminal(command("connect", "mini", "--no-browser"), environment(laptop)) as terminal:
            terminal.expect("onerror")
            terminal.expect(r"\nsecond\r?\n")
            terminal.expect("http://localhost")
            logs = run(laptop, "logs", "mini").stdout
            run(laptop, "stop", "mini")
            terminal.wait()
            _harmless(terminal.shown)
            _harmless(logs)
    finally:
        config.write_text(kept)
        banner.unlink()
        _restart_sshd(cluster)


def _restart_sshd(cluster: Cluster) -> None:
    cluster.stop("login1", "sshd")
    cluster.start("login1", "sshd")


class _Port:
    """The local port of a session that somebody else watches."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> str:
        connection = http.client.HTTPConnection("localhost", self._port, timeout=30)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            return connection.getresponse().read().decode("utf-8")
        finally:
            connection.close()


# -- traps ----------------------------------------------------------------------------------


_TRAP = r"""
for job in $1 $(($1 + 1)) $(($1 + 2)); do
    trap=/tmp/jupyter-hpc-$job.trap00
    mkdir -m 777 "$trap"
    printf 'node=x\nfolder=/tmp/evil\npython=/bin/true\njupyter_pid=%s\n' "$2" >"$trap/address"
    printf 0123456789abcdef >"$trap/secret"
    printf stolen >"$trap/token"
    chmod 666 "$trap"/*
done
mkdir -m 777 /tmp/jh-XXXXXXXX
"""


def test_a_folder_that_mallory_made_before_is_never_used(cluster: Cluster, laptop: Laptop) -> None:
    """Where the home cannot be written, the session's folder is in the node's /tmp."""
    eventually(lambda: _folders(cluster) == [])  # those of the test before go with its job
    shown = cluster.run("login1", ["scontrol", "show", "config"], check=True).stdout
    following = int(shown.partition("NEXT_JOB_ID")[2].split()[1])
    # A process of alice's, so that the server of the trap seems to live.
    sleeper = cluster.popen(NODE, ["sleep", "600"], user="alice")
    eventually(lambda: bool(_sleepers(cluster)))
    words = [str(following), str(_sleepers(cluster)[0])]
    cluster.run(NODE, ["sh", "-c", _TRAP, "sh", *words], user="mallory", check=True)
    cluster.homes.lock("alice")
    try:
        with connected(laptop, "mini") as session:
            job = session.wait_for("ready", 60)["job_id"]
            assert int(job) in range(following, following + 3), "the trap was set elsewhere"
            assert session.get("/api")[0] == 200
            mine = _folders(cluster)
            assert len(mine) == 2 and all(line.endswith(" 700") for line in mine), mine
            stolen = cluster.run(NODE, ["find", "/tmp", "-path", "*trap00/*", "-user", "alice"])
            assert stolen.stdout == ""
            # Found again by the next connect, and not taken for mallory's.
            session.end()
        with connected(laptop, "mini") as session:
            assert session.wait_for("ready", 60)["job_id"] == job
    finally:
        sleeper.kill()
        sleeper.wait(10)
        cluster.homes.restore_all()
        cluster.run(NODE, ["sh", "-c", "rm -rf /tmp/jupyter-hpc-*.trap00 /tmp/jh-XXXXXXXX"])


def _folders(cluster: Cluster) -> list[str]:
    """Name and mode of what sessions of alice's have in the node's /tmp."""
    argv = ["find", "/tmp", "-maxdepth", "1", "-user", "alice", "-printf", "%f %m\n"]
    lines = cluster.run(NODE, argv).stdout.splitlines()
    return [line for line in lines if line.startswith(("jupyter-hpc-", "jh-"))]


def _sleepers(cluster: Cluster) -> list[int]:
    found = cluster.hosts[NODE].processes()
    return [each.inner_pid for each in found if each.argv == ("sleep", "600")]


def test_values_of_a_profile_never_become_shell_words(cluster: Cluster, laptop: Laptop) -> None:
    home, uid = cluster.home("alice"), user_named("alice").uid
    root = home / "$(touch owned)`touch owned`; touch owned"
    root.mkdir()
    os.chown(root, uid, uid)
    values: dict[str, Any] = {
        "allocation": {"extra": ["--comment=$(touch owned); touch owned"]},
        "jupyter": {
            "root_dir": f"/home/alice/{root.name}",
            "command": ["jupyter", "lab", "--ServerApp.terminado_settings={'x': '$(touch owned)'}"],
        },
        "storage.x": {"path": "/tmp", "note": "$(touch owned)"},
    }
    laptop.write_profile("mini", values)
    try:
        with connected(laptop, "mini") as session:
            job = session.wait_for("ready", 60)["job_id"]
            shown = cluster.run("login1", ["scontrol", "show", "job", job]).stdout
            assert "Comment=$(touch owned); touch owned" in shown
        for host in ("login1", NODE):
            found = cluster.run(host, ["find", "/home", "/tmp", "-name", "owned"]).stdout
            assert found == ""
    finally:
        shutil.rmtree(root, ignore_errors=True)
