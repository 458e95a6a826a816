"""This machine's Python as one that users have brought to an older system.

On a cluster with an old system people use a newer Python of their own. This one takes its C
library and its loader along, so that it runs on any root. The loader looks for libraries in the
folder beside it: the names that it has built in are replaced by others of the same length.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.layout import ENV_PATH

_OWN = f"{ENV_PATH}/own"
_LOADER = f"{_OWN}/ld.so"

#: What the loader has built in, and what it is to have.
_IN_LOADER = {
    "/lib/x86_64-linux-gnu/": f"{_OWN}/libs/",
    "/etc/ld.so.cache": "/etc/ld.no.cache",
}

#: All of the C library: parts of two of them do not go together.
_PACKAGES = ("libc6", "libgcc-s1", "libstdc++6")


def bring(environment: Path) -> None:
    """Put an interpreter into a copy of the machine's environment, to be used at ENV_PATH."""
    program = (environment / "bin/python3").resolve()
    own = environment / "own"
    for name in ("bin", "lib", "libs"):
        (own / name).mkdir(parents=True)
    shutil.copytree(f"/usr/lib/{program.name}", own / "lib" / program.name)
    for library in {*_of_packages(), *_of_extensions(program)}:
        shutil.copy2(library, own / "libs" / library.name)
    loader = _loader_of(program)
    _changed(Path(loader), _IN_LOADER, own / "ld.so")
    _changed(program, {loader: _LOADER}, own / "bin" / program.name)
    (environment / "bin/python3").unlink()
    (environment / "bin/python3").symlink_to(f"../own/bin/{program.name}")
    settings = environment / "pyvenv.cfg"
    text = re.sub(r"(?m)^(home|executable) = /usr/bin", rf"\1 = {_OWN}/bin", settings.read_text())
    settings.write_text(text, encoding="utf-8")


def _changed(file: Path, names: dict[str, str], target: Path) -> None:
    """Copy a program with other names in it, none of them longer than the one that was there."""
    content = file.read_bytes()
    for before, after in names.items():
        old, new = f"{before}\0".encode(), f"{after}\0".encode()
        assert old in content and len(new) <= len(old), (file, before, after)
        content = content.replace(old, new.ljust(len(old), b"\0"))
    target.write_bytes(content)
    target.chmod(0o755)


def _loader_of(program: Path) -> str:
    asked = ["readelf", "--program-headers", str(program)]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found = re.search(r"program interpreter: (\S+)\]", listed)
    assert found is not None, listed
    return found[1]


def _of_packages() -> Iterator[Path]:
    asked = ["dpkg", "--listfiles", *_PACKAGES]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        path = Path(line)
        if re.search(r"\.so(\.\d+)*$", path.name) and "gconv" not in line and path.is_file():
            yield path


def _of_extensions(program: Path) -> Iterator[Path]:
    """What the interpreter and the modules of its standard library are linked with."""
    modules = Path(f"/usr/lib/{program.name}/lib-dynload").glob("*.so")
    asked = ["ldd", str(program), *map(str, modules)]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    for found in re.findall(r"=> (/\S+)", listed):
        yield Path(found)
