"""A Jupyter server of its own for one test: own home, own settings, any environment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.tools import ROOT, unavailable
from tests.waiting import eventually

START_SECONDS = 100.0

#: No greeting, no news: they cover what a test wants to see and ask the network.
QUIET_SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}

#: What the machine's own environment must not tell the server of a test.
HIDDEN_PREFIXES = ("SLURM_", "JUPYTER_", "CUDA_")


@dataclass(frozen=True)
class LabServer:
    """A running server."""

    url: str
    token: str
    home: Path
    notebooks: Path
    log: Path

    def address(self, path: str = "lab") -> str:
        return f"{self.url}{path}?token={self.token}"


@contextlib.contextmanager
def lab_server(
    folder: Path,
    *,
    python: str = sys.executable,
    module: str = "jupyterlab",
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    options: tuple[str, ...] = (),
    from_checkout: bool = True,
) -> Iterator[LabServer]:
    """Start `python -m module` in `folder` and stop it, with its kernels, afterwards.

    The extension is that of the checkout, whatever is installed, unless an installed
    one is to be tested (`from_checkout=False`).
    """
    home, notebooks, log = folder / "home", folder / "notebooks", folder / "server.log"
    for path in (home, notebooks):
        path.mkdir(parents=True, exist_ok=True)
    _write_settings(home, {**QUIET_SETTINGS, **(settings or {})})
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                python,
                "-m",
                module,
                "--no-browser",
                "--ip=127.0.0.1",
                "--port=0",
                "--allow-root",
                f"--ServerApp.root_dir={notebooks}",
                "--LabApp.expose_app_in_browser=True",
                *options,
            ],
            cwd=notebooks,
            env=_environment(home)
            | (_checkout(folder) if from_checkout else {})
            | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        info = _wait_until_it_answers(process, home, log)
        yield LabServer(info["url"], info["token"], home, notebooks, log)
    finally:
        _stop(process)


def _environment(home: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(HIDDEN_PREFIXES)
    }
    command_log = {
        name: os.environ[name] for name in ("JUPYTER_HPC_COMMAND_LOG",) if name in os.environ
    }
    return (
        kept
        | command_log
        | {
            "HOME": str(home),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "PYTHONUNBUFFERED": "1",
        }
    )


def _checkout(folder: Path) -> dict[str, str]:
    """Where Jupyter finds the extension's bundle and configuration in the checkout."""
    bundle = ROOT / "jupyter_hpc" / "labextension"
    if not (bundle / "package.json").exists():
        unavailable("the front end is not built; `make install` builds it")
    extensions = folder / "share" / "labextensions"
    extensions.mkdir(parents=True, exist_ok=True)
    (extensions / "jupyter-hpc").symlink_to(bundle)
    return {
        "JUPYTER_PATH": str(extensions.parent),
        "JUPYTER_CONFIG_PATH": str(ROOT / "jupyter-config"),
    }


def _write_settings(home: Path, settings: Mapping[str, Mapping[str, object]]) -> None:
    for plugin, values in settings.items():
        package, _, name = (
            plugin.rpartition("/") if plugin.startswith("@") else plugin.partition(":")
        )
        path = home / "settings" / package / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")


def _wait_until_it_answers(
    process: subprocess.Popen[bytes], home: Path, log: Path
) -> dict[str, str]:
    file = home / "runtime" / f"jpserver-{process.pid}.json"

    def look() -> dict[str, str] | None:
        assert process.poll() is None, f"it ended at once:\n{log.read_text(errors='replace')}"
        # The file may be there before the server accepts connections (URLError is an OSError).
        with contextlib.suppress(OSError, json.JSONDecodeError):
            info: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
            with urllib.request.urlopen(info["url"] + "api", timeout=10):
                return info
        return None

    return eventually(
        look, lambda: f"no server:\n{log.read_text(errors='replace')}", seconds=START_SECONDS
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask twice, as Ctrl-C twice would, then insist on the whole group."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
