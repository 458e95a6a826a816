"""What people do from a laptop, on the release that the environment names.

It runs on any release, also where the cluster's own Python is too old for jupyter-hpc: the
laptop's does everything, and what travels to the job needs the standard library only.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import apptainer
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.roots import default_release
from tests.connect.real.sessions import Session, connected, pids
from tests.matrix.release import SMALL, Desk, texts
from tests.waiting import eventually

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not default_release(), reason="`make matrix` runs this on each release"),
]

GPU = {"allocation": {"partition": "gpu", "gpus": 1, "gpu_type": "a100"}}


@pytest.fixture
def desk(cluster: Cluster, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(cluster, tmp_path)
    yield made
    made.clear()


def _plain_warning(session: Session) -> str:
    """The sentence that JupyterLab has no panels, among other warnings."""

    def said() -> str:
        warnings = [event["text"] for event in session.events if event["event"] == "warning"]
        return next((text for text in warnings if "plain JupyterLab is open" in text), "")

    return eventually(said, lambda: f"{session.events}")


@pytest.mark.parametrize("transport", ["ssh", "login-ssh", "srun", "direct"])
def test_every_transport_of_a_gpu_job(cluster: Cluster, tmp_path: Path, transport: str) -> None:
    """Twice: the second time there is a step that has the job's GPUs."""
    desk = Desk(cluster, tmp_path, **GPU)
    for first in (True, False):
        with connected(desk.laptop, "mini", "--via", transport) as session:
            ready = session.wait_for("ready", 90)
            assert ready["transport"] == transport
            assert session.get("/api")[0] == 200
            if first and not cluster.switches.product_installed:
                _plain_warning(session)  # told where the server is started
            session.end()
    desk.clear()


def test_a_python_that_is_too_old_is_not_told_to_install(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.switches.takes_product:
        pytest.skip("this release's Python can have jupyter-hpc")
    desk = Desk(cluster, tmp_path, **GPU)
    with connected(desk.laptop, "mini") as session:
        session.wait_for("ready", 90)
        said = _plain_warning(session)
        assert "Python 3.10 or newer" in said and "pip install" not in said
        (relay,) = pids(cluster, "gpu01", "relay.py --serve")
        runs = cluster.run("gpu01", ["readlink", f"/proc/{relay}/exe"]).stdout.strip()
        assert runs.endswith(_python_of(cluster)), "what travels is content with it"
    desk.clear()


def _python_of(cluster: Cluster) -> str:
    return "python{}.{}".format(*cluster.switches.root.python)


def test_a_job_with_its_results(desk: Desk) -> None:
    cells = [
        "import sys\nn = 2\nprint('python%d.%d' % sys.version_info[:2])",
        "open('out.txt', 'w').write(str(n * 21))\nprint('answer', n * 21)",
    ]
    job = desk.submit("plain", cells, *SMALL, "--set", "n=3", "--wait")
    log = desk.hpc("log", job)
    assert "answer 63" in log and _python_of(desk.cluster) in log
    assert texts(desk.results(job), "out.txt") == ["63"]
    assert job in desk.hpc("jobs", "--json")


def test_a_sweep(desk: Desk) -> None:
    cells = ["lr = 0.5", "open('out.txt', 'w').write(str(lr))\nprint('loss:', lr)"]
    job = desk.submit("sweep", cells, *SMALL, "--sweep", "lr=0.1,0.2,0.3", "--wait")
    assert texts(desk.results(job), "out.txt") == ["0.1", "0.2", "0.3"]


GOES_ON = [
    "import os",
    "parts = int(open('parts.txt').read()) + 1 if os.path.exists('parts.txt') else 1\n"
    "open('parts.txt', 'w').write(str(parts))\nprint('part', parts, flush=True)",
    "import sys\nsys.exit(85 if parts < 2 else 0)",
]


@pytest.mark.parametrize("way", [("--chain", "3"), ("--requeue",)], ids=["chain", "requeue"])
def test_a_job_goes_on(desk: Desk, way: tuple[str, ...]) -> None:
    """85 asks for another part; the second one ends the chain."""
    job = desk.submit("on", GOES_ON, *SMALL, *way, "--until", "exit")
    eventually(lambda: not desk.cluster.jobs(), lambda: f"{desk.cluster.jobs()}", seconds=240)
    assert texts(desk.results(job), "parts.txt") == ["2"]


def test_two_nodes_with_gpus_and_staging(cluster_with: ClusterFactory, tmp_path: Path) -> None:
    """The program and what runs beside it are steps of the same job, and neither waits."""
    cluster: Any = cluster_with(two_gpu_nodes=True, accounting=False)
    desk = Desk(cluster, tmp_path)
    (tmp_path / "data.txt").write_text("staged", encoding="utf-8")
    cells = ["import socket\nprint('on', socket.gethostname(), open('data.txt').read())"]
    words = ("--partition", "wide", "--nodes", "2", "--tasks", "2", "--gpus", "2", "--time", "5")
    small = ("--cpus", "1", "--mem", "500M", "--stage-in", "data.txt")
    job = desk.submit("wide", cells, *words, *small, "--wait")
    log = desk.hpc("log", job)
    assert "on gpu01 staged" in log and "on cpu01 staged" in log, log
    desk.clear()


def test_a_job_in_a_container(desk: Desk) -> None:
    """Apptainer itself; its image is a folder with an older system and its Python of 3.9."""
    if desk.cluster.switches.root.slurm < apptainer.FIRST_RELEASE:
        pytest.skip("Debian's Apptainer needs the C library of a newer system")
    home = desk.cluster.home("alice")
    shutil.copytree(apptainer.unpacked(), home / "apptainer", symlinks=True)
    apptainer.make_image(home / "image")
    setup = ['export PATH="$HOME/apptainer/usr/bin:$PATH"']
    desk.laptop.write_profile(
        "mini", {"slurm": {"poll_seconds": 5}, "environment": {"setup": setup}}
    )
    cells = [
        "import os, sys\nn = 2\nprint('python%d.%d' % sys.version_info[:2])",
        "print('in', os.environ['APPTAINER_CONTAINER'], 'at', os.getcwd())\n"
        "open('out.txt', 'w').write(str(n * 21))",
    ]
    words = ("--container", "/home/alice/image", "--isolate", "--wait")
    job = desk.submit("contained", cells, *SMALL, *words)
    log = desk.hpc("log", job)
    assert "python3.9" in log and "in /home/alice/image at " in log, log
    assert texts(desk.results(job), "out.txt") == ["42"]
    refused = desk.hpc("submit", "contained.ipynb", *SMALL, "--container", "/no/image", check=False)
    assert "/no/image" in refused
