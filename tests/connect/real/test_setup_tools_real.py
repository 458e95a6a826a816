"""`setup` with a site's own tools: module systems, conda, a quota, hosts without Python."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.bare_account import ENV, WHEELS, environment_lines, setup
from tests.connect.real.bare_account import account as account
from tests.connect.real.bare_account import laptop as laptop
from tests.connect.real.sessions import run
from tests.connect.setup.channel import make_channel
from tests.connect.setup.modules import KINDS, laid_over, unpacked
from tests.connect.setup.stand_ins import stand_in
from tests.connect.setup.wheels import uv_program

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

#: Names a conda that is to be tried: a program that every user of the test cluster can run.
REAL_CONDA = "JUPYTER_HPC_TEST_CONDA"

#: Conda as it was before 24.3 at the command line, with environments made of wheels.
OLD_CONDA = """#!/bin/sh
[ "$1" != --version ] || { echo conda 22.11.1; exit 0; }
[ "$CONDA_ALWAYS_YES" = true ] || { echo 'Proceed ([y]/n)? '; exit 1; }
case "$1 $2" in
"env export")
    printf 'name: null\\nchannels:\\n  - conda-forge\\ndependencies:\\n  - python=3.11\\n'
    printf '  - pip:\\n      - jupyter-hpc==0.1.0\\nprefix: %s\\n' "$4"
    exit 0 ;;
"env create")
    [ "$3 $5" = "-p -f" ] || { echo "conda-env: error: unrecognized arguments: $3" >&2; exit 2; }
    if grep nothere "$6"; then
        printf 'ResolvePackageNotFound: \\n  - nothere=1\\n\\n' >&2
        exit 1
    fi
    grep -q python=3.11 "$6" || exit 9
    shift ;;
esac
[ "$1 $2" = "create -p" ] || { echo "unrecognized arguments: $*" >&2; exit 2; }
/usr/bin/python3 -m venv "$3" && mkdir "$3/conda-meta" &&
    "$3/bin/python" -m pip install -q --no-index -f /home/alice/wheels jupyterlab ipykernel
"""

CONDARC = """\
solver: classic
custom_channels:
  conda-forge: file:///home/alice
default_channels: []
"""


def _fault(laptop: Laptop, *words: str) -> str:
    done = setup(laptop, "--no-job", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("kind", ["played", "real"])
def test_conda_makes_the_environment(laptop: Laptop, account: Path, kind: str) -> None:
    path = account / "bin/conda"
    if kind == "played":
        _program(path, OLD_CONDA)
        said = "conda 22.11.1"
    elif program := os.environ.get(REAL_CONDA):
        _program(path, f'#!/bin/sh\nexec {program} "$@"\n')
        make_channel(account / "conda-forge")
        (account / ".condarc").write_text(CONDARC)
        said = "conda "
    else:
        pytest.skip(f"no conda is named by {REAL_CONDA}")
    (account / ".bash_profile").write_text('PATH="$HOME/bin:$PATH"\n')
    made = setup(laptop, "--style", "conda", "--wheels", WHEELS)
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"Making an environment with {said}" in made.stdout and "It starts on" in made.stdout
    assert f"CONDA_PREFIX=$(readlink -f /home/alice/{ENV})" in environment_lines(laptop)["setup"][0]
    assert (account / ENV / "conda-meta").is_dir()
    lock = laptop.home / "lock.yml"
    assert setup(laptop, "--export", str(lock)).returncode == 0
    assert "python=3.11" in lock.read_text() and "alice" not in lock.read_text(), lock.read_text()
    again = setup(laptop, "-f", str(lock), "--wheels", WHEELS, "--no-job")
    assert again.returncode == 0, again.stdout + again.stderr
    wrong = laptop.home / "wrong.yml"
    wrong.write_text("channels:\n- conda-forge\ndependencies:\n- python=3.11\n- nothere=1\n")
    failed = _fault(laptop, "-f", str(wrong), "--wheels", WHEELS)
    assert "no package 'nothere' that fits in the channels" in failed, failed
    assert f"{ENV} is in use as before" in failed
    gone = setup(laptop, "--style", "conda", "--remove")
    assert gone.returncode == 0 and not (account / ENV).exists(), gone.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_module_system_says_is_in_the_error(
    cluster: Cluster, laptop: Laptop, account: Path, kind: str
) -> None:
    if unpacked(kind) is None:
        pytest.skip("the Debian packages of the module system are not to be had here")
    files = account / "modules/python"
    files.mkdir(parents=True)
    for name, text in (
        ("3.10.2", "setenv LOADED 3.10"),
        ("3.11.5", "setenv LOADED 3.11"),
        ("3.12.0", "prereq gcc/12"),
    ):
        (files / name).write_text(f"#%Module\n{text}\n")
    with laid_over(cluster, "login1", kind) as init:
        (account / ".bash_profile").write_text(f"export MODULEPATH=$HOME/modules\n. {init}\n")
        host = ("login1", "--ssh-config", str(laptop.ssh_config), "--name", "other", "--print")
        shown = run(laptop, "clusters", "new", *host)
        assert f"# Modules: {'Lmod' if kind == 'lmod' else 'Environment Modules'}." in shown.stdout
        made = setup(laptop, "--module", "python/3.11.5", "--wheels", WHEELS, "--no-job")
        assert made.returncode == 0, made.stdout + made.stderr
        assert environment_lines(laptop)["modules"] == ["python/3.11.5"]
        wrong = _fault(laptop, "--module", "python/9", "--wheels", WHEELS)
        assert "The module 'python/9' cannot be loaded on login1. It says: " in wrong, wrong
        assert "There are: python/3.10.2, python/3.11.5, python/3.12.0." in wrong, wrong
        needs = _fault(laptop, "--module", "python/3.12.0", "--wheels", WHEELS)
        assert "gcc/12" in needs and "may need another one first" in needs, needs
    cluster.run("login1", ["rm", "-rf", "modules"], user="alice")


@pytest.mark.parametrize("style", ["venv", "uv"])
def test_a_quota_is_called_by_its_name(
    cluster: Cluster, laptop: Laptop, account: Path, style: str
) -> None:
    (account / "limited").mkdir(mode=0o700)
    os.chown(account / "limited", account.stat().st_uid, account.stat().st_gid)
    if style == "uv":
        (account / "bin").mkdir()
        shutil.copy(uv_program(), account / "bin/uv")
        (account / ".bash_profile").write_text('PATH="$HOME/bin:$PATH"\n')
    with cluster.homes.small("alice", account / "limited", quota=True):
        (account / "wheels/big-1.0-py3-none-any.whl").write_bytes(
            stand_in("big", "1.0", {"big.py": "#" * 20_000_000})
        )
        words = ("--prefix", "limited/env", "--wheels", WHEELS)
        said = _fault(laptop, *words, "--style", style, "--package", "big")
    assert "Your quota on login1 is used up" in said and "--prefix" in said, said
    assert list((account / "limited").iterdir()) == []


def test_a_host_without_any_python(laptop: Laptop, account: Path) -> None:
    bare = "mkdir -p ~/tools && cp -rs /usr/bin/. ~/tools && rm -f ~/tools/*python* ~/tools/uv"
    (account / ".bash_profile").write_text(f"[ -d ~/tools ] || {{ {bare}; }}\nPATH=$HOME/tools\n")
    said = _fault(laptop, "--wheels", WHEELS, "--style", "venv")
    assert "login1 has no Python on its PATH" in said and "--module" in said, said
