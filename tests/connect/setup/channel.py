"""A conda channel in a folder: small packages with the names that `setup` asks for.

The packages `python` and `pip` work, by means of the host's own Python; those of Jupyter are
stand-ins, as the wheels of stand_ins.py are.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.connect.setup.stand_ins import MODULES, VERSIONS

_PLATFORM = "linux-64"

#: A file of a package; a link where it is a path.
_Content = bytes | Path


def make_channel(folder: Path) -> None:
    """python, pip, jupyterlab and ipykernel, with the list of them that conda reads first."""
    shown = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, check=True)
    version = shown.stdout.split()[1]
    modules = f"lib/python{'.'.join(version.split('.')[:2])}/site-packages"
    python: dict[str, _Content] = {
        # With it, Python's own folder is that of the environment.
        "pyvenv.cfg": f"home = /usr/bin\nversion = {version}\n".encode(),
        "bin/python3": Path("/usr/bin/python3"),
        "bin/python": Path("python3"),
    }
    jupyter = {
        name: {f"{modules}/{path}": text.encode() for path, text in files.items()}
        for name, files in MODULES.items()
    }
    rows = dict(
        [
            _package(folder, "python", version, python),
            _package(folder, "pip", metadata.version("pip"), _pip(modules)),
            *(
                _package(folder, name, VERSIONS.get(name, "99.0.0"), files)
                for name, files in jupyter.items()
            ),
        ]
    )
    for platform, packages in ((_PLATFORM, rows), ("noarch", {})):
        (folder / platform).mkdir(exist_ok=True)
        listed = {"info": {"subdir": platform}, "packages": packages, "packages.conda": {}}
        (folder / platform / "repodata.json").write_text(json.dumps(listed))


def _pip(modules: str) -> dict[str, _Content]:
    """The pip of the tests' own environment."""
    files = metadata.distribution("pip").files or ()
    return {
        f"{modules}/{file}": Path(str(file.locate())).read_bytes()
        for file in files
        if file.parts[0].startswith("pip") and "__pycache__" not in file.parts
    }


def _package(
    folder: Path, name: str, version: str, files: Mapping[str, _Content]
) -> tuple[str, dict[str, Any]]:
    """A package in the folder; its name there and its row in the list."""
    row = {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "depends": [] if name == "python" else ["python"],
        "subdir": _PLATFORM,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:bz2") as archive:
        for path, content in files.items():
            _add(archive, path, content)
        _add(archive, "info/index.json", json.dumps(row).encode())
        _add(archive, "info/files", "".join(f"{path}\n" for path in files).encode())
    data = packed.getvalue()
    place = folder / _PLATFORM / f"{name}-{version}-0.tar.bz2"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    sums = {each: hashlib.new(each, data).hexdigest() for each in ("md5", "sha256")}
    return place.name, {**row, **sums, "size": len(data)}


def _add(archive: tarfile.TarFile, path: str, content: _Content) -> None:
    entry = tarfile.TarInfo(path)
    if isinstance(content, Path):
        entry.type, entry.linkname = tarfile.SYMTYPE, str(content)
        archive.addfile(entry)
    else:
        entry.size, entry.mode = len(content), 0o644
        archive.addfile(entry, io.BytesIO(content))
