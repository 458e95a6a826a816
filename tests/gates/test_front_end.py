"""Front-end gates: tsc, eslint, prettier, vitest, and the lock file."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import jupyter_hpc
from tests.tools import ROOT, require, run, unavailable

FOLDER = ROOT / "labextension"


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return content


@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", ["typecheck", "lint", "format:check", "test"])
def test_npm_script(script: str) -> None:
    npm = require("npm")
    if not (FOLDER / "node_modules").is_dir():
        unavailable("labextension/node_modules is missing; `make install` creates it")
    run([npm, "run", "--silent", script], cwd=FOLDER)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("description: \"The profile's name, else", "description: The profile's name, else"),
        ("    Problem:\n", "    Problems:\n"),
        ("type: string", "type: [string"),
        ("summary: ", "sumary: "),
    ],
    ids=["cut text", "reference to nothing", "not YAML", "unknown member"],
)
def test_types_are_made_of_a_valid_description_only(good: str, bad: str, tmp_path: Path) -> None:
    npm, tool = require("npm"), FOLDER / "node_modules/.bin/openapi-typescript"
    if not tool.exists():
        unavailable("labextension/node_modules is missing; `make install` creates it")
    text = (ROOT / "docs/developers/openapi.yaml").read_text(encoding="utf-8")
    assert good in text
    broken = text.replace(good, bad, 1).replace("Slurm's.\"}", "Slurm's.}")
    folder = tmp_path / "docs/developers"
    folder.mkdir(parents=True)
    (folder / "openapi.yaml").write_text(broken, encoding="utf-8")
    front_end = tmp_path / "labextension"
    front_end.mkdir()
    for name in ("package.json", "redocly.yaml", "node_modules"):
        (front_end / name).symlink_to(FOLDER / name)
    done = subprocess.run(
        [npm, "run", "--silent", "build:types"], cwd=front_end, capture_output=True, text=True
    )
    assert done.returncode != 0, done.stdout
    assert not (front_end / "generated").exists()


def test_lock_file_names_no_registry() -> None:
    lock = (FOLDER / "package-lock.json").read_text(encoding="utf-8")
    packages: dict[str, dict[str, Any]] = json.loads(lock)["packages"]
    for package in packages.values():
        package.pop("funding", None)  # links to the authors' own pages, not to a registry
    assert "resolved" not in {key for package in packages.values() for key in package}
    assert re.findall(r"\w+://[^\"]*", json.dumps(packages)) == []
    assert all("integrity" in package for name, package in packages.items() if name)


def test_version_is_the_one_of_the_python_package() -> None:
    assert read("package.json")["version"] == jupyter_hpc.__version__
    assert read("package-lock.json")["version"] == jupyter_hpc.__version__


def test_shared_packages_accept_every_supported_jupyterlab() -> None:
    """A narrower range would make JupyterLab 4.2 call the extension incompatible."""
    package = read("package.json")
    needed = {
        name: version
        for name, version in package["dependencies"].items()
        if name.startswith("@jupyterlab/")
    }
    shared = package["jupyterlab"]["sharedPackages"]
    assert {name: entry["requiredVersion"] for name, entry in shared.items()} == needed
    assert all(not entry["bundled"] and entry["singleton"] for entry in shared.values())
    assert all(version.startswith("^") for version in package["dependencies"].values())


def test_every_dependency_is_used() -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in (FOLDER / "src").rglob("*.ts*"))
    unused = [name for name in read("package.json")["dependencies"] if f"'{name}'" not in source]
    assert unused == []


def test_styles_take_their_colours_from_the_theme() -> None:
    for sheet in (FOLDER / "style").glob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\(", text) == []
        assert set(re.findall(r"var\((--[\w-]+)", text)) == set(
            re.findall(r"var\((--jp-[\w-]+)", text)
        )
        names = set(re.findall(r"\.([a-zA-Z][\w-]*)", re.sub(r"url\([^)]*\)", "", text)))
        strangers = {name for name in names if not name.startswith(("jp-", "lm-"))}
        assert strangers == set()
