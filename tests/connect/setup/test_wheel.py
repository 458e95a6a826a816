"""This package as a wheel, made of its own files."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import jupyter_hpc
from jupyter_hpc.connect.setup import wheel
from jupyter_hpc.errors import UsageError


def test_the_wheel_installs_with_panels_and_can_be_made_again_from_there(tmp_path: Path) -> None:
    data = wheel.own_wheel()
    assert data == wheel.own_wheel()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        record = f"jupyter_hpc-{jupyter_hpc.__version__}.dist-info/RECORD"
        rows = {row[0] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert names == rows and "jupyter_hpc/connect/setup/shipped/build.sh" in names
    assert not any("__pycache__" in name for name in names)
    file = tmp_path / wheel.wheel_name()
    file.write_bytes(data)
    target = tmp_path / "env"
    # Without --ignore-installed pip would remove the package that these tests run with.
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install += ["--ignore-installed"]
    subprocess.run([*install, "--prefix", str(target), str(file)], check=True, timeout=100)
    (site,) = target.glob("lib/python*/site-packages")
    assert (target / "share/jupyter/labextensions/jupyter-hpc/package.json").exists()
    assert (target / "etc/jupyter/jupyter_server_config.d/jupyter_hpc.json").exists()
    # The installed package makes the same wheel as the checkout.
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); sys.prefix = {str(target)!r}\n"
        "from jupyter_hpc.connect.setup.wheel import own_wheel\n"
        "sys.stdout.buffer.write(own_wheel())"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=100)
    assert again.returncode == 0, again.stderr.decode()
    with zipfile.ZipFile(io.BytesIO(again.stdout)) as archive:
        assert set(archive.namelist()) == names


def test_a_package_without_its_front_end_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "_checkout", lambda: iter(()))
    monkeypatch.setattr(wheel, "_installed", lambda listed: iter(()))
    with pytest.raises(UsageError, match="panels of JupyterLab are missing"):
        wheel.own_wheel()
