"""The log of a session whose manager works in the background."""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_logs_local import _environment
from tests.connect.real.sessions import command
from tests.connect.real.terminal import Terminal

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """That of a laptop while the demo cluster runs."""
    base = tmp_path_factory.mktemp("behind")
    home = base / "home"
    home.mkdir()
    environment = _environment(home, base / "d")
    words = command("demo", "--folder", str(base / "d"), "--no-browser")
    with Terminal(words, environment) as terminal:
        terminal.expect(r"over ssh\)", 150)
        yield environment
        terminal.control_c()
        terminal.wait(60)


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
    )


def logs_folder(environment: dict[str, str]) -> Path:
    return Path(environment["HOME"]) / ".local" / "share" / "jupyter" / "hpc" / "logs"


def test_lines_go_to_stderr_the_file_has_all_and_stays(environment: dict[str, str]) -> None:
    done = run(environment, "connect", "-v", "--new", "--detach", "--json", "demo")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "ready"
    (name,) = {event["cluster"] for event in events}
    assert re.search(rf"^\S+ INFO {name} connect\.ssh\.hop: logged in to ", done.stderr, re.M)
    assert " DEBUG " not in done.stderr
    path = logs_folder(environment) / f"{name}.log"
    assert " DEBUG " in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert run(environment, "stop", name).returncode == 0
    # It is over, and its log is still there.
    assert name not in run(environment, "status").stdout
    assert "event ended" in run(environment, "logs", "--local", name, "-n", "20").stdout


def test_a_person_at_a_terminal_sees_lines_and_the_live_line(environment: dict[str, str]) -> None:
    words = command("-vv", "connect", "--new", "--no-browser", "demo")
    with Terminal(words, environment) as terminal:
        terminal.expect(r"DEBUG demo-2 runner: demo-login: squeue ", 60)
        terminal.expect(r"Starting JupyterLab on demo-gpu\d", 60)
        terminal.expect(r"INFO demo-2 connect\.tunnel\.transports: transport to ", 120)
        terminal.expect(r"over ssh\): http://localhost:\d+/lab", 120)
        terminal.expect(r"runner: demo-gpu\d: tail ", 60)  # shown after the notification
        terminal.control_c()
        terminal.expect("Your choice")
        terminal.type("c\n")
        assert terminal.wait(60) == 0
        assert "Traceback" not in terminal.shown


def test_a_log_that_cannot_be_written_breaks_nothing(environment: dict[str, str]) -> None:
    folder = logs_folder(environment)
    aside = folder.rename(folder.with_name("logs-before")) if folder.exists() else None
    folder.write_text("a file in its place")
    try:
        done = run(environment, "connect", "--new", "--detach", "--json", "demo")
        assert done.returncode == 0, done.stderr
        event = json.loads(done.stdout.splitlines()[-1])
        assert event["event"] == "ready"
        assert done.stderr.count("cannot be written") == 1
        assert run(environment, "stop", event["cluster"]).returncode == 0
    finally:
        folder.unlink()
        if aside is not None:
            aside.rename(folder)
