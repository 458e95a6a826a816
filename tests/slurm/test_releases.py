"""What is decided by the release: the predicates and the bash of batch scripts agree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jupyter_hpc.slurm.releases import (
    BESIDE,
    FORGET_GPUS,
    NO_GPUS,
    read_release,
    release_name,
    shares_gpus,
)

#: What `--version` prints, of Debian's packages and of others.
SHOWN = {
    "slurm-wlm 20.11.4": False,
    "slurm 21.08.8-2": False,
    "slurm-wlm 22.05.8": True,
    "slurm 23.11.10": True,
    "slurm-wlm 24.11.5": True,
    "slurm-wlm 26.05.5": True,
}


@pytest.mark.parametrize("shown", SHOWN)
def test_a_script_and_the_program_decide_the_same(tmp_path: Path, shown: str) -> None:
    release = read_release(shown)
    assert release is not None and release_name(release) in shown
    assert shares_gpus(release) is SHOWN[shown]
    (tmp_path / "srun").write_text(f"#!/bin/sh\necho '{shown}'\n")
    (tmp_path / "srun").chmod(0o755)
    done = subprocess.run(
        ["bash", "-euc", f'{BESIDE}\n{FORGET_GPUS}\necho "$beside ${{SLURM_GPUS_PER_NODE-no}}"'],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_GPUS_PER_NODE": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ("1" if SHOWN[shown] else f"{NO_GPUS} no")


def test_what_tells_no_release() -> None:
    assert read_release("sinfo: error: nothing") is None
