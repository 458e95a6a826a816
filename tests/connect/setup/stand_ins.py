"""Small wheels with the names of large packages: what is proved with them is how they get there."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

#: What `python -m ipykernel install --prefix FOLDER --name NAME …` leaves, and nothing else.
_KERNEL = """
import json, os, sys
given = dict(zip(sys.argv, sys.argv[1:]))
folder = os.path.join(given["--prefix"], "share/jupyter/kernels", given["--name"])
os.makedirs(folder)
with open(os.path.join(folder, "kernel.json"), "w") as file:
    json.dump({"argv": [sys.executable, "-m", "ipykernel_launcher"]}, file)
"""

#: Of these a module is needed.
MODULES = {
    "jupyterlab": {"jupyterlab/__init__.py": "__version__ = '4.2.99'\n"},
    "ipykernel": {"ipykernel/__init__.py": "", "ipykernel/__main__.py": _KERNEL},
}

#: Satisfies every lower bound that we have and none of the upper ones breaks.
VERSIONS = {"jupyterlab": "4.2.99", "jupyter_server": "2.99.0"}


def required() -> list[str]:
    """The names of all that our own wheel asks for with its extra `lab`."""
    names = set()
    for line in metadata.requires("jupyter-hpc") or ():
        wanted, _, marker = line.partition(";")
        if "extra" not in marker or "'lab'" in marker or '"lab"' in marker:
            names.add(re.split(r"[^\w.-]", wanted.strip())[0].replace("-", "_"))
    return sorted(names)


#: A line of a .pth file: what stands in the environment PREFIX can be imported, too.
_LENDS = (
    "import os, sys; sys.path.append({prefix!r} + '/lib/python%d.%d/site-packages' % "
    "sys.version_info[:2]); "
    "os.environ.setdefault('JUPYTERLAB_DIR', {prefix!r} + '/share/jupyter/lab')\n"
)

_PROGRAMS = """\
[console_scripts]
jupyter = jupyter_core.command:main
jupyter-lab = jupyterlab.labapp:main
"""


def make_wheels(folder: Path, *, lender: str = "") -> None:
    """A folder of wheels from which our own can be installed with its extra `lab`.

    With `lender`, the folder of an environment with the same Python, its packages are behind
    the names: JupyterLab then starts in what is made of the wheels, with our own package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in required():
        version = VERSIONS.get(name, "99.0.0")
        files = {} if lender else MODULES.get(name, {})
        if lender and name == "jupyterlab":
            files = {
                "lender.pth": _LENDS.format(prefix=lender),
                f"{name}-{version}.dist-info/entry_points.txt": _PROGRAMS,
            }
        wheel = folder / f"{name}-{version}-py3-none-any.whl"
        wheel.write_bytes(stand_in(name, version, files))


def broken_in_jobs(folder: Path) -> None:
    """Put an ipykernel into a folder of wheels that works on the login host only."""
    guard = "import os\nif 'SLURM_JOB_ID' in os.environ:\n    raise SystemExit('not here')\n"
    files = {**MODULES["ipykernel"], "ipykernel/__init__.py": guard}
    wheel = next(folder.glob("ipykernel-*.whl"))
    wheel.write_bytes(stand_in("ipykernel", wheel.name.split("-")[1], files))


def stand_in(name: str, version: str, modules: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    extras = "Provides-Extra: bcrypt\n" if name == "asyncssh" else ""
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **modules,
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return buffer.getvalue()
