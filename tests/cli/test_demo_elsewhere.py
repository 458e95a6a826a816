"""A running demo, as commands in another terminal see it."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_demo import _environment
from tests.connect.real.sessions import command
from tests.connect.real.terminal import Terminal

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def demo(tmp_path: Path, home: Path) -> Iterator[Terminal]:
    words = command("demo", "--folder", str(tmp_path / "demo"), "--no-browser")
    with Terminal(words, _environment(home)) as terminal:
        terminal.expect(r"over ssh\)", 120)
        yield terminal


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command in another terminal, which knows nothing of the demo's folder."""
    return subprocess.run(
        command(*words), env=_environment(home), capture_output=True, text=True, timeout=90
    )


@pytest.mark.parametrize("word", ["stop", "disconnect"])
def test_other_terminals_find_the_demo_and_end_it(demo: Terminal, home: Path, word: str) -> None:
    (entry,) = json.loads(run(home, "status", "--json").stdout)
    assert (entry["cluster"], entry["state"], entry["job_id"]) == ("demo", "ready", "1")
    address = demo.expect(r"http://localhost:\d+/lab/tree/welcome\.ipynb\?token=[0-9a-f]+")
    assert run(home, "url", "demo").stdout.strip() == address.replace("/tree/welcome.ipynb", "")
    assert "ServerApp" in run(home, "logs").stdout
    again = run(home, "connect", "demo", "--json")
    assert json.loads(again.stdout)["job_id"] == "1", again.stderr
    assert "jupyter-hpc-demo" in run(home, "jobs", "--on", "demo").stdout
    _forward_leads_to_the_service(home)
    ended = run(home, word, "demo")
    assert ended.returncode == 0, ended.stderr
    assert "Job 1 was cancelled, as asked." in ended.stdout
    assert demo.wait(60) == 0
    assert json.loads(run(home, "status", "--json").stdout) == []
    assert list(home.iterdir()) == []


def _forward_leads_to_the_service(home: Path) -> None:
    """The demo's node is this computer: the service keeps its port, the forward takes another."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    local = int(run(home, "forward", "demo", str(port)).stdout.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)) as service:
        service.settimeout(30)
        with socket.create_connection(("127.0.0.1", local), 30) as client:
            client.sendall(b"hello\n")
            served, _ = service.accept()
            with served:
                assert served.recv(100) == b"hello\n"
    assert f":{local}" in run(home, "forward", "demo", str(port)).stdout, "opened twice"


def test_a_further_session_logs_in_to_the_demo_that_runs(demo: Terminal, home: Path) -> None:
    """Over a login of its own: only the demo itself knows the folder that it was given."""
    words = command("connect", "demo", "--no-browser", "--time", "20:00")
    with Terminal(words, _environment(home)) as terminal:
        terminal.expect(r"Use it \(u\) or open a further one beside it \(f\)\? \[u\]")
        terminal.type("r\n")  # would end the demo
        terminal.expect("Please type u or f")
        terminal.type("u\n")
        terminal.expect("demo is connected already")
        assert terminal.wait() == 0
    refused = run(home, "connect", "demo", "--time", "20:00")
    assert refused.returncode == 2 and "jupyter-hpc stop" not in refused.stderr
    further = run(home, "connect", "demo", "--new", "--detach", "--json")
    assert json.loads(further.stdout.splitlines()[-1])["event"] == "ready", further.stderr
    assert run(home, "stop", "demo-2").returncode == 0
    demo.control_c()
    assert demo.wait(60) == 0
    assert not (home / ".local/share/jupyter/hpc/demo-folder").exists()


def test_a_home_that_cannot_be_written_to_keeps_no_demo_from_running(
    tmp_path: Path, home: Path
) -> None:
    (home / ".local").touch()  # as root, a folder without write permission is no hindrance
    words = command("demo", "--folder", str(tmp_path / "demo"), "--no-browser")
    with Terminal(words, _environment(home)) as terminal:
        terminal.expect(r"over ssh\)", 120)
        terminal.control_c()
        assert terminal.wait(60) == 0
