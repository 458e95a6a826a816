"""This very package as a wheel, made of its installed files; nothing but Python is needed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath

import jupyter_hpc
from jupyter_hpc.errors import UsageError

_NAME = "jupyter-hpc"
_EXTENSION = "share/jupyter/labextensions/jupyter-hpc"
_CONFIG = "etc/jupyter/jupyter_server_config.d"

#: Files of a wheel's own folder that come anew.
_WRITTEN_ANEW = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "WHEEL")


def wheel_name() -> str:
    return f"jupyter_hpc-{jupyter_hpc.__version__}-py3-none-any.whl"


def own_wheel() -> bytes:
    """The wheel; UsageError if the front end is not there, without which it would be half."""
    try:
        found = metadata.distribution(_NAME)
    except metadata.PackageNotFoundError as error:
        raise UsageError(
            "jupyter-hpc is not installed as a package here, so it cannot be sent.",
            "Install it: python -m pip install jupyter-hpc",
        ) from error
    info = f"jupyter_hpc-{jupyter_hpc.__version__}.dist-info"
    files: dict[str, bytes] = {}
    for name in ("METADATA", "entry_points.txt"):
        text = found.read_text(name)
        if text is not None:
            files[f"{info}/{name}"] = text.encode("utf-8")
    listed = {str(file): Path(str(file.locate())) for file in found.files or ()}
    installed = "jupyter_hpc/__init__.py" in {PurePosixPath(name).as_posix() for name in listed}
    parts = _installed(listed) if installed else _checkout()
    files |= {name: path.read_bytes() for name, path in parts if path.is_file()}
    data = f"jupyter_hpc-{jupyter_hpc.__version__}.data/data"
    if f"{data}/{_EXTENSION}/package.json" not in files:
        raise UsageError(
            "The panels of JupyterLab are missing from this installation.",
            "Install jupyter-hpc again; in a checkout, run `make install`.",
        )
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: jupyter-hpc\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    return _zipped(files, f"{info}/RECORD")


def _installed(listed: dict[str, Path]) -> Iterator[tuple[str, Path]]:
    """The files of an installed package: its modules, and its data below the prefix."""
    prefix = Path(sys.prefix).resolve()
    data = f"jupyter_hpc-{jupyter_hpc.__version__}.data/data"
    for name, path in listed.items():
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if "__pycache__" in parts or parts[-1] in _WRITTEN_ANEW:
            continue
        if parts[0] == "jupyter_hpc":
            yield "/".join(parts), path
        elif parts[0] == "..":
            below = path.resolve()
            if below.is_relative_to(prefix):
                place = below.relative_to(prefix).as_posix()
                if place.startswith(("share/", "etc/")):
                    yield f"{data}/{place}", path


def _checkout() -> Iterator[tuple[str, Path]]:
    """The same of a checkout that is installed in place."""
    package = Path(jupyter_hpc.__file__).parent
    data = f"jupyter_hpc-{jupyter_hpc.__version__}.data/data"
    for path in sorted(package.rglob("*")):
        place = path.relative_to(package)
        if "__pycache__" in place.parts:
            continue
        if place.parts[0] == "labextension":
            below = path.relative_to(package / "labextension").as_posix()
            yield f"{data}/{_EXTENSION}/{below}", path
        else:
            yield f"jupyter_hpc/{place.as_posix()}", path
    root = package.parent
    yield f"{data}/{_EXTENSION}/install.json", root / "labextension/install.json"
    for path in sorted((root / "jupyter-config/jupyter_server_config.d").glob("*.json")):
        yield f"{data}/{_CONFIG}/{path.name}", path


def _zipped(files: dict[str, bytes], record: str) -> bytes:
    buffer, rows = io.BytesIO(), io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            writer.writerow([name, f"sha256={digest.decode()}", len(content)])
            _add(archive, name, content)
        writer.writerow([record, "", ""])
        _add(archive, record, rows.getvalue().encode("utf-8"))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # One time for all: the same files make the same wheel, so nothing is built twice.
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
