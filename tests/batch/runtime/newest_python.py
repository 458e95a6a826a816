"""The newest Python that Debian has, in the root of the cluster with the newest Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.roots import NEWEST, is_made, root_of

#: Runs its arguments in the root, with the files of one test and nothing of its own left there.
_ENTER = """\
#!/bin/sh
exec unshare --mount --propagation private sh -c '
    root=$1 shared=$2 python=$3; shift 3
    mount -t tmpfs tmpfs "$root/tmp"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root$shared" && mount --bind "$shared" "$root$shared"
    exec unshare --root "$root" --wd "$PWD" "$python" "$@"
' sh {root} {shared} {python} "$@"
"""


def newest_python(shared: Path) -> tuple[str, tuple[int, int]]:
    """A program that is that Python, and its version; it sees `shared` and what is below."""
    if os.getuid() or shutil.which("unshare") is None or not is_made(NEWEST):
        pytest.skip(f"the root with Slurm {NEWEST} is missing (make matrix, as root)")
    root = root_of(NEWEST)
    name = "/usr/bin/python{}.{}".format(*root.python)
    program = shared / "newest-python"
    text = _ENTER.format(root=root.folder, shared=shared, python=name)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    subprocess.run([program, "-c", ""], check=True, cwd=shared, timeout=60)
    return str(program), root.python
