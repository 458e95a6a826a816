"""Run the tests of a cluster on each release of Slurm: python -m tests.matrix [RELEASE…]"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from tests.cluster import roots
from tests.cluster.cluster import prepare
from tests.cluster.packages import obstacle
from tests.cluster.room import StartFailed
from tests.cluster.switches import Switches

#: What runs on every release.
EVERYWHERE = (
    "tests/slurm/test_conformance.py",
    "tests/matrix/test_release.py",
    "tests/matrix/test_newest.py::test_reconnects_are_never_shut_out",
    "tests/connect/real/test_sites_real.py",
)

#: What needs jupyter-hpc in the Python of the cluster. That of 20.11's system is too old for it;
#: there the users have a newer one of their own.
WITH_PRODUCT = (
    "tests/connect/real/test_session_real.py",
    "tests/connect/real/test_direct_real.py",
    "tests/connect/real/test_nodes_real.py",
    "tests/node/test_answers_on_slurm.py",
    "tests/node/test_on_slurm.py",
    "tests/node/test_batch_on_slurm.py",
    "tests/batch/test_on_slurm.py",
    "tests/batch/test_chains_on_slurm.py",
)  # fmt: skip

#: Three files at a time, the longest first, unless other words are given.
_SIDE_BY_SIDE = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")


def run(release: str, words: Sequence[str]) -> bool:
    """Run the tests on one release; whether all of them passed."""
    reason = obstacle(Switches(slurm=release))
    if reason:
        print(f"Slurm {release}: {reason}", file=sys.stderr)
        return False
    named = {roots.RELEASE_VARIABLE: release}
    if roots.root_of(release).takes_product:
        return _pytest(release, [*EVERYWHERE, *WITH_PRODUCT], words, named)
    newer = {**named, roots.PYTHON_VARIABLE: "1"}
    plain = _pytest(release, EVERYWHERE, words, named)
    return _pytest(release, WITH_PRODUCT, words, newer) and plain


def _pytest(
    release: str, files: Sequence[str], words: Sequence[str], variables: Mapping[str, str]
) -> bool:
    prepare(Switches(slurm=release, newer_python=roots.PYTHON_VARIABLE in variables))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *(words or _SIDE_BY_SIDE), *files],
        env={**os.environ, **variables},
        check=False,
    )
    return done.returncode == 0


def main(words: Sequence[str] | None = None) -> int:
    """Make the roots, run the tests on each, and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(roots.SUITES))
    chosen, pytest_words = parser.parse_known_args(words)
    unknown = [release for release in chosen.releases if release not in roots.SUITES]
    if unknown:
        parser.error(f"there is no root for {unknown[0]}; there are {', '.join(roots.SUITES)}")
    said = []
    for release in chosen.releases:
        began = time.monotonic()
        try:
            roots.make(release)
            passed = run(release, pytest_words)
        except StartFailed as error:
            print(f"Slurm {release}: {error}", file=sys.stderr)
            passed = False
        minutes = (time.monotonic() - began) / 60
        said.append((release, passed, minutes))
    for release, passed, minutes in said:
        print(f"Slurm {release}: {'passed' if passed else 'FAILED'} in {minutes:.0f} min")
    return 0 if all(passed for _, passed, _ in said) else 1


if __name__ == "__main__":
    sys.exit(main())
