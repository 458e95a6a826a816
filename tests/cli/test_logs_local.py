"""`logs --local`, `-v`, and the log of a whole session on the embedded cluster."""

from __future__ import annotations

import http.client
import json
import os
import re
import stat
import subprocess
import sys
import threading
import urllib.parse
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jupyter_hpc.cli.main import COMMANDS, cli
from jupyter_hpc.cli.verbose import current_log
from jupyter_hpc.errors import UsageError
from tests.connect.real.sessions import CHECKOUT, command
from tests.connect.real.terminal import Terminal
from tests.waiting import eventually


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the logs are, on a laptop that has none yet."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    return tmp_path / "hpc" / "logs"


def write(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


def logs(*words: str) -> Result:
    return CliRunner().invoke(cli, ["logs", "--local", *words])


# -- logs --local -------------------------------------------------------------------------


def test_both_files_are_shown_in_order(folder: Path) -> None:
    write(folder, "a.log", "three", "four")
    write(folder, "a.log.1", "one", "two")
    assert logs("a").stdout.split() == ["one", "two", "three", "four"]
    assert logs("a", "-n", "3").stdout.split() == ["two", "three", "four"]
    assert logs("a", "-n", "0").stdout == ""
    # It is the only one, so it need not be named.
    assert logs("-n", "1").stdout.split() == ["four"]


def test_a_session_that_never_was_is_an_error(folder: Path) -> None:
    result = logs("a")
    assert isinstance(result.exception, UsageError)
    assert "There is no log of a session 'a'" in result.exception.message
    assert "jupyter-hpc connect a" in result.exception.hint
    write(folder, "b.log", "x")
    result = logs("a")
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint == "There are logs of: b."


def test_several_logs_need_a_name(folder: Path) -> None:
    write(folder, "a.log", "x")
    write(folder, "b.log", "x")
    result = logs()
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint == "There are logs of: a, b."


def test_following_goes_on_after_a_rotation(folder: Path) -> None:
    write(folder, "a.log", "one")
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command("logs", "--local", "a", "-f"), env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        shown: list[str] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lambda out=process.stdout: shown.extend(out), daemon=True)
        reader.start()
        try:
            eventually(lambda: shown == ["one\n"], "the log is shown")
            with open(folder / "a.log", "a") as file:
                file.write("two\n")
            eventually(lambda: shown[1:] == ["two\n"], "what is added is shown")
            os.replace(folder / "a.log", folder / "a.log.1")
            write(folder, "a.log", "three")
            eventually(lambda: shown[2:] == ["three\n"], "the new file is shown")
        finally:
            process.terminate()
            reader.join(10)


# -- -v -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["clusters"], 0),
        (["-v", "clusters"], 1),
        (["clusters", "-v"], 1),
        (["-v", "clusters", "-v"], 2),
        (["clusters", "-vv"], 2),
        (["--verbose", "clusters"], 1),
    ],
)
def test_v_counts_before_and_behind_the_command(
    words: list[str], wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging

    from jupyter_hpc.cli import clusters

    seen: list[int] = []

    def look(**_: object) -> None:
        seen.append(current_log().verbose)
        for level in (logging.DEBUG, logging.INFO):
            logging.getLogger("jupyter_hpc.cli.example").log(level, "a line")

    monkeypatch.setattr(clusters.clusters, "callback", look)
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert seen == [wanted]
    # Each line once, whatever was counted where, and never on stdout.
    assert result.stderr.count("cli.example: a line") == wanted
    assert result.stdout == ""


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_takes_v(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "-v", "--help"])
    assert result.exit_code == 0
    assert len(re.findall(r"-v, --verbose", result.output)) == 1


# -- a whole session ----------------------------------------------------------------------


@dataclass
class Demo:
    """A demo that runs with -vv, and everything that its log must not hold."""

    folder: Path
    home: Path
    environment: dict[str, str]
    terminal: Terminal
    url: str
    secrets: dict[str, str]

    @property
    def log(self) -> Path:
        return self.folder / "laptop" / "logs" / "demo.log"

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=cwd,
        )


def _environment(home: Path, folder: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name] for name in ("LANG", "JUPYTER_HPC_COMMAND_LOG") if name in os.environ
    }
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    here = {"HOME": str(home), "PYTHONPATH": str(CHECKOUT), "JUPYTER_HPC_DEMO": str(folder)}
    return {**kept, "PATH": path, **here}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    base = tmp_path_factory.mktemp("logged")
    folder, home = base / "d", base / "home"
    home.mkdir()
    environment = _environment(home, folder)
    words = command("demo", "-vv", "--folder", str(folder), "--no-browser", "--mfa")
    with Terminal(words, environment) as terminal:
        shown = terminal.expect(r"Password: \S+   Code: \d+", 60)
        found = re.fullmatch(r"Password: (\S+)   Code: (\d+)", shown)
        assert found is not None
        terminal.expect("[Pp]assword")
        terminal.type(f"{found[1]}\n")
        terminal.expect("[Cc]ode")
        terminal.type(f"{found[2]}\n")
        terminal.expect(r"over ssh\)", 150)
        url = terminal.expect(r"http://localhost:\d+/lab/tree/welcome\.ipynb\?token=[0-9a-f]+")
        state = folder / "home" / ".local" / "state" / "jupyter-hpc"
        record = json.loads((folder / "laptop" / "sessions" / "demo.json").read_text())
        secrets = {
            "password": found[1],
            "code": found[2],
            "token": url.partition("token=")[2],
            "session secret": record["secret"],
            "relay secret": next(state.glob("jobs/*/secret")).read_text().strip(),
            "cookie secret": (state / "cookie_secret").read_text().strip(),
        }
        assert all(len(value) > 5 for value in secrets.values()), secrets.keys()
        yield Demo(folder, home, environment, terminal, url, secrets)
        terminal.control_c()
        assert terminal.wait(60) == 0


def _get(url: str, **headers: str) -> int:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.timeout(300)
def test_the_log_of_a_whole_session_holds_no_secret(demo: Demo) -> None:
    assert _get(demo.url) == 200
    assert _get(demo.url, Host="evil.example") == 403
    assert demo.run("url", "demo").stdout.strip().endswith(demo.secrets["token"])
    assert demo.run("-v", "jobs", "--on", "demo").returncode == 0
    text = demo.log.read_text()
    assert [name for name, value in demo.secrets.items() if value in text] == []
    assert stat.S_IMODE(demo.log.stat().st_mode) == 0o600
    for wanted in (
        r"GET /lab\S* refused: it names another host",
        r"logged in to demo-login as \S+; tried: .*keyboard-interactive.*a person answered",
        "transport to demo-gpu1: ssh is the best transport",
        r"runner: demo-login: squeue .* -> exit 0, \d",
        r"runner: demo-gpu1: sh -c <place\.sh> jupyter-hpc \S+",
        "link down -> up",
        "learnt: jobs are made with salloc",
        "event ready",
        "remembered of demo: {'port'",
        r"asyncssh: \[conn=\d+\] Auth for user",
    ):
        assert re.search(wanted, text), wanted
    assert {line.split(" ")[2] for line in text.splitlines() if line[:1] == "2"} == {"demo"}


@pytest.mark.timeout(300)
def test_the_terminal_shows_the_lines_and_keeps_its_own(demo: Demo) -> None:
    shown = demo.terminal.shown
    assert re.search(r"DEBUG demo runner: demo-login: squeue", shown)
    assert re.search(r"INFO demo connect\.tunnel\.link: link down -> up", shown)
    lines = [line for line in shown.splitlines() if " demo runner: " in line]
    assert [value for line in lines for value in demo.secrets.values() if value in line] == []


@pytest.mark.timeout(300)
def test_other_commands_find_the_log_of_the_session(demo: Demo) -> None:
    shown = demo.run("logs", "--local", "demo")
    assert "event ready" in shown.stdout
    assert len(demo.run("logs", "--local", "demo", "-n", "2").stdout.splitlines()) == 2
    # -v is no part of what programs read.
    answer = demo.run("status", "--json", "-vv")
    assert json.loads(answer.stdout)[0]["cluster"] == "demo"


@pytest.mark.timeout(300)
def test_the_report_of_a_running_session_holds_neither_secret_nor_name(
    demo: Demo, tmp_path: Path
) -> None:
    done = demo.run("report-bug", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"jupyter-hpc-report-demo-\d{8}-\d{6}\.zip", path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    for name, text in texts.items():
        assert [kind for kind, value in demo.secrets.items() if value in text] == [], name
        assert str(demo.home) not in text and str(demo.folder / "home") not in text, name
        assert not re.search(rf"\b{re.escape(_user())}\b", text), name
        assert name in done.stdout
    assert re.fullmatch(r"\d+\.\d\d\n", texts["slurm.txt"])
    assert json.loads(texts["session.json"])["state"] == "ready"
    assert "ssh is the best transport" in texts["transport.txt"]
    assert "event ready" in texts["events.txt"] and "event ready" in texts["log.txt"]
    assert json.loads(texts["profile.json"])["allocation"]["partition"] == "gpu"
    assert {"jupyter-hpc", "python", "asyncssh", "tornado", "click", "openssh", "system"} <= set(
        json.loads(texts["versions.json"])
    )


def _user() -> str:
    import getpass

    return getpass.getuser()
