"""What sdist and wheel carry, and what the wheel asks for."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

import pytest

import jupyter_hpc
from tests.requirements import requirements
from tests.tools import ROOT, require, run, unavailable

pytestmark = pytest.mark.timeout(300)

DATA = f"jupyter_hpc-{jupyter_hpc.__version__}.data/data"
LABEXTENSION = f"{DATA}/share/jupyter/labextensions/jupyter-hpc"


def test_wheel_carries_bundle_and_configuration(dists: dict[str, Path]) -> None:
    with zipfile.ZipFile(dists["wheel"]) as wheel:
        names = wheel.namelist()
        assert "jupyter_hpc/demo/notebooks/welcome.ipynb" in names
        package = json.loads(wheel.read(f"{LABEXTENSION}/package.json"))
        config = json.loads(
            wheel.read(f"{DATA}/etc/jupyter/jupyter_server_config.d/jupyter_hpc.json")
        )
    assert f"{LABEXTENSION}/install.json" in names
    assert f"{LABEXTENSION}/{package['jupyterlab']['_build']['load']}" in names
    assert config["ServerApp"]["jpserver_extensions"] == {"jupyter_hpc": True}
    assert "jupyter_hpc/py.typed" in names
    assert "jupyter_hpc/clusters/builtin/demo.toml" in names
    scripts = (ROOT / "jupyter_hpc").rglob("*.sh")
    shipped = {file.relative_to(ROOT).as_posix() for file in scripts}
    assert "jupyter_hpc/connect/job/shipped/functions/field.sh" in shipped
    assert shipped <= set(names)
    strangers = {name.split("/")[0] for name in names if not name.startswith("jupyter_hpc")}
    assert strangers == set()
    assert not [name for name in names if name.startswith("jupyter_hpc/labextension/")]


def test_wheel_names_its_commands_and_needs_no_jupyterlab(dists: dict[str, Path]) -> None:
    with zipfile.ZipFile(dists["wheel"]) as wheel:
        info = f"jupyter_hpc-{jupyter_hpc.__version__}.dist-info"
        metadata = wheel.read(f"{info}/METADATA").decode()
        scripts = wheel.read(f"{info}/entry_points.txt").decode()
    assert "jupyter-hpc = jupyter_hpc.__main__:main" in scripts
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    always = [line for line in required if "extra ==" not in line]
    assert len(always) == len(requirements())
    assert not [line for line in always if "jupyterlab" in line or "torch" in line]
    assert "License-Expression: BSD-3-Clause" in metadata


def test_sdist_carries_sources_and_bundle_but_no_clutter(dists: dict[str, Path]) -> None:
    with tarfile.open(dists["sdist"]) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    for wanted in (
        "Makefile",
        "labextension/src/index.ts",
        "labextension/package-lock.json",
        "labextension/redocly.yaml",
        "docs/developers/openapi.yaml",
        "jupyter_hpc/labextension/package.json",
        "jupyter_hpc/labextension/static/style.js",
        "tests/conftest.py",
    ):
        assert wanted in names
    clutter = ("node_modules", ".venv", ".cache", "__pycache__", ".git")
    assert not [name for name in names if any(part in name.split("/") for part in clutter)]
    made = ("labextension/lib/", "labextension/generated/")
    assert not [name for name in names if name.startswith(made)]


def test_the_front_end_compiles_from_the_sdist(dists: dict[str, Path], tmp_path: Path) -> None:
    """All that the build reads is in it; node_modules is what `npm ci` would install."""
    npm = require("npm")
    if not (ROOT / "labextension/node_modules").is_dir():
        unavailable("labextension/node_modules is missing; `make install` creates it")
    with tarfile.open(dists["sdist"]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    (source / "labextension/node_modules").symlink_to(ROOT / "labextension/node_modules")
    run([npm, "run", "--silent", "build:lib"], cwd=source / "labextension")
    assert (source / "labextension/generated/openapi.d.ts").is_file()
    assert (source / "labextension/lib/index.js").is_file()
