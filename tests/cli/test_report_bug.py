"""`report-bug`: what is in the file, and above all what is not."""

from __future__ import annotations

import getpass
import json
import socket
import stat
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jupyter_hpc.cli.main import cli
from jupyter_hpc.errors import UsageError

TOKEN = "4221cb41149bdfd211058bf5b9ee3642385bb808159badb47dc3b289ea5caa68"

PROFILE = """
title = "A cluster"
[login]
host = ["login1.example.org"]
user = "jsmith"
jump = ["jsmith2@jump.example.org"]
[allocation]
partition = "gpu"
account = "proj_4711"
extra = ["--mail-user=john.smith@uni.example"]
[presets.big]
account = "proj_4712"
gpus = 4
[environment]
setup = ["source /home/jsmith/venv/bin/activate", "export WANDB_API_KEY=topsecretvalue"]
[jupyter]
root_dir = "/home/jsmith/work"
"""

LOG = f"""\
2026-11-18T05:02:20.186Z INFO c connect.ssh.hop: logged in to login1 as js77; tried: key js@macbook
2026-11-18T05:02:21.000Z DEBUG c runner: login1: sh -c <find> /u/x/uid9/.local/state/jupyter-hpc/1
2026-11-18T05:02:21.000Z DEBUG c runner: login1: salloc --account=proj_9 -A proj_10 -> exit 1, 0.1 s
2026-11-18T05:02:21.000Z WARNING c connect.session.manager: event Warned(text='proj_9 of js77: no')
2026-11-18T05:02:22.000Z INFO c connect.tunnel.transports: transport to n1: srun is used because …
2026-11-18T05:02:23.000Z INFO c proxy: http://localhost:1/lab?token={TOKEN} in /scratch/js77/data
"""

#: Everything that must not be in the file, in whatever part of it.
PRIVATE = (
    *("jsmith", "jsmith2", "john.smith", "js77", "js@", "uid9", TOKEN, "topsecretvalue"),
    *("proj_4711", "proj_4712", "proj_9", "proj_10"),
)


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A laptop with one profile, its folder the current one."""
    profiles = tmp_path / "config" / "hpc" / "clusters"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    profiles.mkdir(parents=True)
    (profiles / "c.toml").write_text(PROFILE)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return tmp_path


def write_log(laptop: Path, name: str = "c") -> None:
    logs = laptop / "data" / "hpc" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / f"{name}.log").write_text(LOG)
    (logs / f"{name}.log.1").write_text(LOG.replace("05:02", "04:02"))
    (logs / f"{name}.out").write_text(f"Traceback of js77: Authorization: token {TOKEN}\n")


def report(*words: str) -> Result:
    return CliRunner().invoke(cli, ["report-bug", *words])


def unpack(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_file_holds_the_log_and_no_person(laptop: Path) -> None:
    write_log(laptop)
    memory = laptop / "data" / "hpc" / "memory"
    memory.mkdir()
    (memory / "c.json").write_text('{"transport": "srun", "transport_reason": "js77 is refused"}')
    result = report("c")
    assert result.exit_code == 0, result.output
    (path,) = (laptop / "here").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    texts = unpack(path)
    for name, text in texts.items():
        assert [one for one in PRIVATE if one in text] == [], name
        assert str(Path.home()) not in text, name
        assert socket.gethostname() not in text, name
    assert set(texts) == {
        *("README.txt", "versions.json", "slurm.txt", "transport.txt", "session.json"),
        *("profile.json", "events.txt", "log.txt", "log-older.txt", "output.txt"),
    }
    assert "salloc --account=<account> -A <account> -> exit 1" in texts["log.txt"]
    assert "/scratch/<user>/data" in texts["log.txt"]
    assert "04:02:21" in texts["log-older.txt"]
    assert "Traceback of <user>" in texts["output.txt"]
    assert texts["events.txt"].count("event Warned") == 2
    assert texts["events.txt"].startswith("2026-11-18T04:02")
    assert "transport: srun\nbecause: <user> is refused" in texts["transport.txt"]
    assert "srun is used because" in texts["transport.txt"]
    assert "no session of this name runs now" in texts["slurm.txt"]
    for name in texts:
        assert name in result.stdout
        assert name == "README.txt" or name in texts["README.txt"]
    assert "Look at it before you send it" in result.stdout


def test_the_profile_says_what_it_asks_for_not_who(laptop: Path) -> None:
    write_log(laptop)
    assert report("c").exit_code == 0
    (path,) = (laptop / "here").iterdir()
    profile = json.loads(unpack(path)["profile.json"])
    assert profile["login"]["host"] == ["login1.example.org"]
    assert profile["login"]["user"] == "<user>"
    assert profile["login"]["jump"] == ["<user>@jump.example.org"]
    assert profile["allocation"]["partition"] == "gpu"
    assert profile["allocation"]["account"] == "<account>"
    assert profile["presets"]["big"]["gpus"] == 4


def test_the_name_of_the_local_user_is_taken_out(
    laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "macuser")
    write_log(laptop)
    logs = laptop / "data" / "hpc" / "logs"
    (logs / "c.log").write_text("x y z: /Volumes/macuser/key was used by MacUser\n")
    assert report("c").exit_code == 0
    (path,) = (laptop / "here").iterdir()
    assert unpack(path)["log.txt"] == "x y z: /Volumes/<user>/key was used by <user>\n"


def test_a_file_that_exists_is_never_overwritten(laptop: Path) -> None:
    write_log(laptop)
    there = laptop / "here" / "mine.zip"
    there.write_text("precious")
    result = report("c", "--output", str(there))
    assert isinstance(result.exception, UsageError)
    assert "exists already" in result.exception.message
    assert there.read_text() == "precious"


def test_output_is_a_file_or_a_folder(laptop: Path) -> None:
    write_log(laptop)
    assert report("c", "-o", str(laptop / "my.zip")).exit_code == 0
    assert "log.txt" in unpack(laptop / "my.zip")
    folder = laptop / "reports"
    folder.mkdir()
    assert report("c", "-o", str(folder)).exit_code == 0
    (path,) = folder.iterdir()
    assert path.name.startswith("jupyter-hpc-report-c-")
    result = report("c", "-o", str(laptop / "nowhere" / "x.zip"))
    assert isinstance(result.exception, UsageError)
    assert "No such file or directory" in result.exception.message


def test_without_a_log_there_is_a_report_that_says_so(laptop: Path) -> None:
    assert report("c").exit_code == 0
    (path,) = (laptop / "here").iterdir()
    assert "There is no log" in unpack(path)["log.txt"]


def test_a_log_without_its_profile_is_reported(laptop: Path) -> None:
    write_log(laptop, "gone")
    assert report("gone").exit_code == 0
    (path,) = (laptop / "here").iterdir()
    assert "not readable" in unpack(path)["profile.json"]


def test_what_nobody_knows_has_no_report(laptop: Path) -> None:
    result = report("nobody")
    assert isinstance(result.exception, UsageError)
    assert "There is no log of a session 'nobody'" in result.exception.message
    assert list((laptop / "here").iterdir()) == []
