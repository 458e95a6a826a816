"""`jupyter-hpc demo` as a newcomer uses it: one command, one address, Ctrl-C."""

from __future__ import annotations

import http.client
import os
import re
import sys
import urllib.parse
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from jupyter_hpc.cli.main import cli
from jupyter_hpc.demo import layout
from jupyter_hpc.errors import UsageError
from tests.connect.real.sessions import CHECKOUT, command
from tests.connect.real.terminal import Terminal

pytestmark = pytest.mark.timeout(300)


def _environment(home: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name] for name in ("LANG", "JUPYTER_HPC_COMMAND_LOG") if name in os.environ
    }
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return {**kept, "PATH": path, "HOME": str(home), "PYTHONPATH": str(CHECKOUT)}


def _processes(mark: str) -> list[str]:
    """Command lines of processes that mention the demo's folder, in arguments or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if mark in words or mark in " ".join(process.environ().values()):
                found.append(words)
        except psutil.Error:
            continue
    return found


def _get(url: str) -> int:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("GET", f"/api/status?{parts.query}")
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_demo_opens_jupyterlab_and_leaves_nothing(tmp_path: Path) -> None:
    folder, home = tmp_path / "demo", tmp_path / "home"
    home.mkdir()
    # So long that the wait is not over before it is looked at.
    words = command("demo", "--folder", str(folder), "--no-browser", "--wait", "12")
    with Terminal(words, _environment(home)) as terminal:
        terminal.expect("Job 1 waits: ", 60)
        terminal.expect(r"JupyterLab on demo-gpu1 \(job 1, over ssh\)", 120)
        url = terminal.expect(r"http://localhost:\d+/lab/tree/welcome\.ipynb\?token=[0-9a-f]+")
        assert _get(url) == 200
        terminal.control_c()
        assert terminal.wait(60) == 0
        assert "was cancelled, as asked" in terminal.shown
        assert "Traceback" not in terminal.shown
    assert _processes(str(folder)) == []
    assert [path.name for path in home.iterdir()] == []
    assert (folder / "home").is_dir()
    left = {path.name for path in folder.iterdir()}
    assert "laptop" not in left


def test_the_demo_can_ask_for_a_password_and_a_code(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    words = command("demo", "--folder", str(tmp_path / "d"), "--no-browser", "--mfa")
    with Terminal(words, _environment(home)) as terminal:
        shown = terminal.expect(r"Password: \S+   Code: \d+", 60)
        found = re.fullmatch(r"Password: (\S+)   Code: (\d+)", shown)
        assert found is not None
        terminal.expect("[Pp]assword")
        # A question stays on the screen until it is answered: nothing is drawn over it.
        with pytest.raises(AssertionError):
            terminal.expect("Logging in|\\x1b\\[2K", 1.5)
        terminal.type(f"{found[1]}\n")
        terminal.expect("[Cc]ode")
        terminal.type(f"{found[2]}\n")
        terminal.expect(r"over ssh\)", 120)
        terminal.control_c()
        assert terminal.wait(60) == 0


def test_without_jupyterlab_the_demo_says_so_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "search_path", lambda: [str(tmp_path)])
    with pytest.raises(UsageError, match=r"JupyterLab is not installed here.*jupyter-hpc\[lab\]"):
        words = ["demo", "--folder", str(tmp_path / "demo"), "--no-browser"]
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []
