"""Profiles in folders of their own: nothing of the machine's Jupyter is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def jupyter_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home with Jupyter's folders in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "site-config"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.delenv("JUPYTER_HPC_DEMO", raising=False)
    return tmp_path


@pytest.fixture
def write(jupyter_home: Path) -> Callable[..., Path]:
    """write(name, text, folder="config") puts a profile into one of the folders."""

    def put(name: str, text: str, folder: str = "config") -> Path:
        path = jupyter_home / folder / "hpc" / "clusters" / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return put
