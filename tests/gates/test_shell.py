"""Every shell script is clean for shellcheck; the installer knows what the cluster needs."""

from __future__ import annotations

import importlib.util

import pytest

from tests.gates.test_house import tracked
from tests.tools import ROOT, require, run, shellcheck


def shell_scripts() -> list[str]:
    def is_shell(head: bytes) -> bool:
        return head.startswith(b"#!") and (b"sh\n" in head or b"bash\n" in head)

    files = tracked("*.sh", ".ci/*", "jupyter_hpc", "tests", "bench")
    found = {
        str(file.relative_to(ROOT))
        for file in files
        if file.suffix == ".sh" or is_shell(file.open("rb").read(40).split(b"\n")[0] + b"\n")
    }
    return sorted(found)


def test_shellcheck() -> None:
    scripts = shell_scripts()
    assert {".ci/run", "tests/install-packages.sh"} <= set(scripts)
    # SC2317 takes every function that is called by a trap or by name for unreachable.
    run([require("shellcheck"), "--color=never", "--exclude=SC2317", *scripts])


def test_shellcheck_finds_a_fault() -> None:
    shellcheck("#!/bin/sh\necho fine\n")
    with pytest.raises(AssertionError, match="SC2086"):
        shellcheck("#!/bin/sh\nfile=$1\nrm -- $file\n")


@pytest.mark.skipif(
    importlib.util.find_spec("tests.cluster.packages") is None, reason="no test cluster here"
)
def test_the_cluster_finds_its_packages_installed() -> None:
    from tests.cluster.packages import DEBIAN_PACKAGES

    script = (ROOT / "tests/install-packages.sh").read_text(encoding="utf-8")
    assert set(DEBIAN_PACKAGES) <= set(script.split())
