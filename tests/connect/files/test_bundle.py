"""The program for the other end: which Python runs it there, and of which age."""

from __future__ import annotations

import ast
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from jupyter_hpc.connect.files.bundle import LOWEST_PYTHON, NO_PYTHON, agent_argv, packed_agent
from jupyter_hpc.connect.files.frames import READY
from jupyter_hpc.connect.files.listing import Source
from jupyter_hpc.connect.files.transfer import Options, pull, push
from tests.connect.files.far_end import far_end
from tests.connect.files.test_transfer import Heard, content
from tests.relay.test_relay import OLD_PYTHON


def started(folder: Path) -> subprocess.CompletedProcess[bytes]:
    """What the program says where these are all programs, and the folder is the current one."""
    return subprocess.run(
        ["/bin/sh", *agent_argv()[1:]],
        input=packed_agent(),
        capture_output=True,
        env={"PATH": str(folder)},
        cwd=folder,
    )


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_first_python_that_is_of_use_is_taken(tmp_path: Path) -> None:
    program(tmp_path / "python3", "exit 127")  # leads to another that is not there
    program(tmp_path / "python3.13", "exit 69")  # too old
    program(tmp_path / "python3.12", "echo Unknown option: -I >&2; exit 2")
    done = started(tmp_path)
    assert (done.returncode, done.stdout) == (NO_PYTHON, b"")
    assert done.stderr.endswith(b"no python")
    program(tmp_path / "python", f'exec {sys.executable} "$@"')
    done = started(tmp_path)
    assert (done.returncode, done.stdout) == (0, READY), done.stderr


def test_a_module_of_the_user_is_not_taken_for_one_of_pythons(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('mine')")
    program(tmp_path / "python3", f'exec {sys.executable} "$@"')
    done = started(tmp_path)
    assert (done.returncode, done.stdout) == (0, READY), done.stderr


def test_it_is_written_for_the_lowest_python() -> None:
    packed = packed_agent().partition(b"\n")[2]
    ast.parse(zlib.decompress(packed), feature_version=LOWEST_PYTHON)


@pytest.mark.skipif(not OLD_PYTHON.exists(), reason="there is no Python 3.9 here")
def test_the_lowest_python_sends_and_receives(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "large").write_bytes(bytes(range(256)) * 10_000)
    (source / "small").write_text("small")
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    with far_end(str(OLD_PYTHON)) as wire:
        done = push(wire, [Source(str(source), "")], there, Options(contents=True), Heard())
        assert done.left == []
        assert pull(wire, [(there, "")], back, Options(contents=True), Heard()).left == []
    assert content(Path(back)) == content(source)
