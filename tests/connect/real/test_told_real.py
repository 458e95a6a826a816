"""Little time left is told by the job itself once no laptop is connected, and told once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.connect.real.sessions import connected, run
from tests.waiting import eventually

#: Appends the message to a file in the home, which on the laptop is another one than on the node.
_WORDS = ["sh", "-c", 'printf "%s %s\\n" "$JUPYTER_HPC_EVENT" "$0" >>"$HOME/told"']


def _told(home: Path) -> list[str]:
    file = home / "told"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.mark.faults
def test_the_job_tells_of_its_end_while_no_laptop_is_connected(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice", "told")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    settings = laptop.home / ".jupyter/hpc/config.toml"
    settings.write_text(f"[notify]\ndesktop = false\ncommand = {json.dumps(_WORDS)}\n")
    home = cluster.home("alice")
    (home / "told").unlink(missing_ok=True)
    with connected(laptop, "mini", "--time", "11") as session:
        job = session.wait_for("ready")["job_id"]
        session.end()
    mode = (home / f".local/state/jupyter-hpc/jobs/{job}/notify.json").stat().st_mode
    assert mode & 0o777 == 0o600
    (said,) = eventually(lambda: _told(home), seconds=240)
    assert said.startswith(f"time-limit mini, job {job}: time is short. The job's time limit comes")
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        session.wait_for("warning")
        eventually(lambda: "ready JupyterLab is ready" in str(_told(laptop.home)))
        assert run(laptop, "stop", "mini").returncode == 0
    assert "time-limit" not in str(_told(laptop.home)) and _told(home) == [said]
