"""What a user installs: sdist and wheel, and environments with an old and the newest JupyterLab."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.requirements import requirements as declared
from tests.tools import ROOT, find, unavailable

CACHE = ROOT / ".cache"
BUILD_TOOLS = ("hatchling", "hatch-jupyter-builder", "jupyter-builder>=1.2,<2")


def call(argv: list[str], *, env: dict[str, str] | None = None, timeout: float = 300) -> str:
    result = subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=timeout, cwd=ROOT
    )
    assert result.returncode == 0, f"{' '.join(argv)}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def without_node(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has no node and no npm."""
    tools = tmp_path / "bin"
    if not tools.exists():
        tools.mkdir(parents=True)
        for folder in reversed(os.environ["PATH"].split(os.pathsep)):
            for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
                link = tools / program.name
                link.unlink(missing_ok=True)
                if program.name not in ("node", "nodejs", "npm", "npx", "yarn", "jlpm"):
                    link.symlink_to(program)
    return os.environ | {"PATH": str(tools)}


@pytest.fixture(scope="session")
def dists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist of this tree and the wheel that is built from it with no node on PATH."""
    if not (ROOT / "jupyter_hpc/labextension/static/style.js").exists() and not find("npm"):
        unavailable("the front end is not built and npm is not installed")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    call([*build, "--sdist", str(ROOT)])
    (sdist,) = folder.glob("*.tar.gz")
    build_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    call(
        [*build_wheel, "--wheel-dir", str(folder), str(sdist)],
        env=without_node(folder / "no-node"),
    )
    (wheel,) = folder.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="session")
def environment() -> Callable[[str, tuple[str, ...]], Path]:
    """environment(name, requirements) -> its python; kept in .cache from run to run.

    Holds everything but jupyter-hpc itself, which every test installs anew.
    """

    def provide(name: str, requirements: tuple[str, ...]) -> Path:
        wanted = [*requirements, *BUILD_TOOLS, *declared()]
        key = hashlib.sha256("\n".join([sys.version, str(ROOT), *wanted]).encode()).hexdigest()
        folder = CACHE / f"venv-{name}-{key[:12]}"
        python = folder / "bin" / "python"
        with locked(CACHE / f"venv-{name}.lock"):
            if not (folder / "ready").exists():
                call([sys.executable, "-m", "venv", "--clear", str(folder)])
                install = ["install", "--quiet", "--no-compile", *wanted]
                pip = [sys.executable, "-m", "pip", "--python", str(python)]
                call([*pip, *install], timeout=600)
                (folder / "ready").touch()
        return python

    return provide


@pytest.fixture(scope="session")
def own_environment() -> Path:
    """The python of a copy of the environment that runs the tests, without jupyter-hpc.

    It has the newest JupyterLab; to install that once more would take a minute.
    """
    old, folder = Path(sys.prefix), CACHE / "venv-own"
    python = folder / "bin" / "python"
    with locked(CACHE / "venv-own.lock"):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(old, folder, symlinks=True, copy_function=_link)
        for script in (folder / "bin").iterdir():
            if script.is_file() and not script.is_symlink():
                text, mode = script.read_bytes(), script.stat().st_mode
                script.unlink()  # it is the same file as the old one
                script.write_bytes(text.replace(bytes(old / "bin"), bytes(folder / "bin"), 1))
                script.chmod(mode)
        call([str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "jupyter-hpc"])
    return python


def _link(source: str, target: str) -> None:
    """A second name for a file, or a copy where the file system has no such thing."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        pass  # it was there for a moment, while another test made Python write its bytecode
    except OSError:
        shutil.copy2(source, target)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two test runs in one checkout make one environment one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
