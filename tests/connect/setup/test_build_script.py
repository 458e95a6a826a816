"""The script that builds, run here with a Python that is played: what it leaves, whatever fails.

The environment in use has to stay until the new one is whole.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from jupyter_hpc.connect.job.remote import script_argv, script_text
from tests.waiting import eventually

#: Makes environments of four files. With a file FAIL in the home it fails at the step named there.
PYTHON = """#!/bin/sh
fail=$(cat "$HOME/FAIL" 2>/dev/null)
case "$*" in
-V) echo Python 3.11.2 ;;
*"sys.exit"*) exit 0 ;;
"-m venv "*)
    [ "$fail" != hang ] || while :; do sleep 0.05; done
    [ "$fail" != venv ] || exit 1
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "VIRTUAL_ENV=$3" >"$3/bin/activate" ;;
*"pip install"*) [ "$fail" != pip ] || { echo "No space left on device" >&2; exit 1; } ;;
*"pip freeze"*) echo jupyterlab==4.2 ;;
*"import jupyterlab"*) [ "$fail" != import ] || exit 1 ;;
*"ipykernel install"*)
    [ "$fail" != kernel ] || exit 1
    mkdir -p "$5/share/jupyter/kernels/$7"
    echo '{"argv": ["x", "-m", "y"]}' >"$5/share/jupyter/kernels/$7/kernel.json" ;;
"- "*) exec python3 "$@" ;;
esac
"""


class Account:
    """A home folder with a Python in it, and the three scripts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work, self.prefix = home / "work", home / "share/env"
        self.versions = home / "share/env.d"
        self.work.mkdir()
        (home / "python").write_text(PYTHON)
        (home / "python").chmod(0o755)
        (self.work / "build.sh").write_text(script_text("build.sh", "setup"))
        (self.work / "packed.sh").write_text(script_text("packed.sh", "setup"))

    @property
    def words(self) -> list[str]:
        fixed = [self.work, self.prefix, "venv", self.home / "python", "", "", "jupyter-hpc-x"]
        return ["bash", f"{self.work}/build.sh", *map(str, fixed)]

    def start(self, key: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.words, key, "--", "jupyter-hpc[lab]"], env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ["PATH"]}

    def build(self, key: str, fail: str = "") -> tuple[int, str]:
        (self.home / "FAIL").write_text(fail)
        with self.start(key) as process:
            out, _ = process.communicate(timeout=30)
        return process.returncode, out

    def script(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            script_argv(name, *words, room="setup"), env=self.environment, text=True,
            capture_output=True, timeout=30,
        )  # fmt: skip

    def look(self) -> dict[str, str]:
        said = self.script("look.sh", str(self.work), str(self.prefix), "look").stdout
        return dict(line.split("=", 1) for line in said.splitlines())

    def switch(self, number: int) -> subprocess.CompletedProcess[str]:
        env = str(self.versions / str(number))
        return self.script("switch.sh", str(self.prefix), env, "jupyter-hpc-x")

    def sweep(self) -> str:
        return self.script("sweep.sh", str(self.prefix)).stdout

    def in_use(self) -> str:
        """What a session that begins now would enter."""
        return (self.prefix / "bin/activate").read_text().strip()


@pytest.fixture
def account(tmp_path: Path) -> Account:
    made = Account(tmp_path)
    code, out = made.build("key1")
    assert code == 0, out
    assert not made.prefix.exists() and made.look()["built_of"] == "key1"
    assert made.switch(1).returncode == 0
    return made


def test_a_new_one_is_made_beside_and_takes_the_place_at_once(account: Account) -> None:
    kernel = account.home / ".local/share/jupyter/kernels/jupyter-hpc-x/kernel.json"
    assert str(account.prefix / "bin/python") in kernel.read_text()
    assert account.in_use() == f"VIRTUAL_ENV={account.versions}/1"
    assert account.build("key2")[0] == 0
    looked = account.look()
    assert (looked["made_of"], looked["built_of"]) == ("key1", "key2")
    assert account.in_use().endswith("/1")
    assert account.switch(2).returncode == 0
    assert account.in_use().endswith("/2") and account.look()["old"].endswith("/1")
    assert account.sweep() == f"removed={account.versions}/1\n"
    assert not (account.versions / "1").exists() and not (account.versions / "1.state").exists()
    assert account.sweep() == "" and account.in_use().endswith("/2")
    assert kernel.exists() and not list(kernel.parent.parent.glob(".*"))


@pytest.mark.parametrize("fail", ["venv", "pip", "import", "kernel"])
def test_a_build_that_fails_leaves_the_one_in_use_and_nothing_else(
    account: Account, fail: str
) -> None:
    before = sorted(account.versions.iterdir())
    code, out = account.build("key2", fail)
    assert code != 0 and "jupyter-hpc: fault" in out and "jupyter-hpc: inodes" in out
    assert sorted(account.versions.iterdir()) == before
    assert account.in_use().endswith("/1") and "running" not in account.look()


def test_a_build_that_is_killed_is_seen_and_the_next_begins_anew(account: Account) -> None:
    (account.home / "FAIL").write_text("hang")
    with account.start("key2") as process:
        eventually(lambda: (account.versions / "2").exists(), "the build's folder")
        assert account.look()["running"] == "yes"
        with account.start("key2") as second:
            assert second.wait(30) == 35
        assert account.look()["running"] == "yes"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    assert account.look()["running"] == "no" and account.in_use().endswith("/1")
    code, out = account.build("key2")
    assert code == 0 and f"Removing {account.versions}/2, which was never finished" in out
    assert account.look()["built"].endswith("/3") and not (account.versions / "2").exists()


def test_one_that_a_program_has_open_stays(account: Account) -> None:
    assert account.build("key2")[0] == 0 and account.switch(2).returncode == 0
    (account.home / "FAIL").write_text("hang")
    words = [str(account.versions / "1/bin/python"), "-m", "venv", "x"]
    with subprocess.Popen(words, env=account.environment) as session:
        eventually(lambda: account.sweep() == f"kept={account.versions}/1\n", "it is seen")
        session.kill()
    assert account.sweep() == f"removed={account.versions}/1\n"


@pytest.mark.parametrize("name", ["env", "env.d"])
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_is_not_ours_is_left_alone(tmp_path: Path, name: str, kind: str) -> None:
    made = Account(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    made.prefix.parent.mkdir()
    place = made.prefix.parent / name
    if kind == "link":
        place.symlink_to(mine)
    else:
        mine.rename(place)
    assert made.build("key1")[0] == 26
    made.script("remove.sh", str(made.work), str(made.prefix), "jupyter-hpc-x")
    assert (place / "file").read_text() == "mine" and place.is_symlink() == (kind == "link")


def test_a_folder_of_wheels_begins_in_the_home(account: Account) -> None:
    for word, code in (("wheels", 29), ("~/wheels", 29)):
        words = account.words
        words[6] = word
        ran = [*words, "key2", "--", "x"]
        done = subprocess.run(
            ran, env=account.environment, cwd="/", text=True, capture_output=True, timeout=30
        )
        assert done.returncode == code and f"fault {account.home}/wheels" in done.stdout
    (account.home / "wheels").mkdir()
    done = subprocess.run(
        ran, env=account.environment, cwd="/", text=True, capture_output=True, timeout=30
    )
    assert done.returncode == 0, done.stdout


def test_nothing_is_built_where_everybody_may_write(tmp_path: Path) -> None:
    made = Account(tmp_path)
    made.prefix.parent.mkdir()
    made.prefix.parent.chmod(0o777)
    assert made.build("key1")[0] == 34
    assert list(made.prefix.parent.iterdir()) == []


def test_a_folder_of_an_earlier_release_goes_aside_when_the_new_one_is_there(
    tmp_path: Path,
) -> None:
    made = Account(tmp_path)
    (made.prefix / "bin").mkdir(parents=True)
    (made.prefix / ".jupyter-hpc").write_text("old")
    assert made.build("key1")[0] == 0 and (made.prefix / ".jupyter-hpc").exists()
    assert made.switch(1).returncode == 0 and made.in_use().endswith("/1")
    assert made.sweep() == f"removed={made.versions}/0\n"


def test_packing_needs_its_tools(account: Account, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "uname", "mkdir", "dirname", "find", "readlink", "rm", "chmod", "df",
                 "awk", "mv", "ls", "cat"):  # fmt: skip
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    words = [word if word != "venv" else "packed" for word in account.words]
    done = subprocess.run(
        [*words, "key2", "--", "x"], env={**account.environment, "PATH": str(tools)}, text=True,
        capture_output=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 24 and "fault mksquashfs" in done.stdout
    assert account.in_use().endswith("/1")


def test_a_switch_that_fails_changes_nothing(account: Account) -> None:
    assert account.build("key2")[0] == 0
    kernels = account.home / ".local/share/jupyter/kernels"
    aside = kernels.rename(kernels.with_name("aside"))
    kernels.write_text("in the way")
    done = account.switch(2)
    assert done.returncode == 28 and f"fault {kernels}" in done.stdout
    assert account.in_use().endswith("/1") and account.look()["made_of"] == "key1"
    kernels.unlink()
    aside.rename(kernels)
    assert account.switch(2).returncode == 0 and account.in_use().endswith("/2")


def test_removing_leaves_nothing(account: Account) -> None:
    account.build("key2")
    done = account.script("remove.sh", str(account.work), str(account.prefix), "jupyter-hpc-x")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in account.home.iterdir()) == [
        ".local", "FAIL", "python", "share",
    ]  # fmt: skip
    assert list((account.home / "share").iterdir()) == []
    assert list((account.home / ".local/share/jupyter/kernels").iterdir()) == []
