"""The usual workflow on a replica of each site, with the built-in profile."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
from pathlib import Path

import pytest

from tests.cluster.authority import certify
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import require
from tests.cluster.laptop import Laptop, profile_toml
from tests.cluster.replica import Replica
from tests.cluster.switches import Switches
from tests.connect.real.sessions import Session, command, connected, environment, run
from tests.sites.table import ALWAYS, SITES, Site
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(600)

#: A training that writes where it works; the job tells where that was.
_CELL = (
    "import os, pathlib\nEPOCHS = 3\npathlib.Path('models').mkdir(exist_ok=True)\n"
    "pathlib.Path('models/w.txt').write_text(pathlib.Path('data.txt').read_text())\n"
    "print('worked in', os.getcwd())\nprint('runs on', os.environ['SLURM_JOB_PARTITION'])"
)


def _laptop(cluster: Cluster, name: str, site: Site) -> Laptop:
    """A laptop whose profile NAME is the built-in one, with this cluster's address in it."""
    laptop = cluster.laptop("alice", name)
    if cluster.switches.certificates:
        certify(cluster, laptop, 3600)
    sections = site.sections
    sections["login"] = {"host": "login1", "ssh_config": str(laptop.ssh_config)}
    sections["slurm"] = {"poll_seconds": 3}
    path = laptop.home / ".jupyter/hpc/clusters" / f"{name}.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'extends = "{name}"\n' + profile_toml(name, sections), encoding="utf-8")
    return laptop


def _hpc(laptop: Laptop, folder: Path, *words: str) -> str:
    done = subprocess.run(
        command(*words), cwd=folder, env=environment(laptop), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def _panel(laptop: Laptop, name: str, session: Session) -> None:
    """What the panel shows of the session and of storage comes from this cluster."""
    url = urllib.parse.urlsplit(run(laptop, "url", name).stdout.strip())
    token = urllib.parse.parse_qs(url.query)["token"][0]
    headers = {"Authorization": f"token {token}"}
    for path, wanted in (("session", "job"), ("jobs", "jobs"), ("storage", "places")):
        status, body, _ = session.get(f"/jupyter-hpc/{path}", headers)
        assert status == 200, (path, body)
        assert wanted in json.loads(body), body


@pytest.mark.parametrize(
    "name",
    [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.sites) for name in SITES],
)
def test_the_usual_workflow(name: str, tmp_path: Path) -> None:
    site = SITES[name]
    switches = Switches(two_gpu_nodes=True, **dict(site.switches))
    require(switches)
    notebook = tmp_path / "train.ipynb"
    cell = {"cell_type": "code", "id": "c0", "metadata": {}, "outputs": [], "source": _CELL}
    notebook.write_text(
        json.dumps(
            {"nbformat": 4, "nbformat_minor": 5, "metadata": {},
             "cells": [{**cell, "execution_count": None}]}
        )
    )  # fmt: skip
    (tmp_path / "data.txt").write_text("seven")
    with Replica(site.shape, switches) as cluster:
        laptop = _laptop(cluster, name, site)
        with connected(laptop, name) as session:
            ready = session.wait_for("ready", 180)
            assert ready["transport"] == site.transport
            _panel(laptop, name, session)
            words = ("submit", "train.ipynb", "--on", name, "--stage-in", "data.txt")
            job = _hpc(laptop, tmp_path, *words, "--wait").strip()
            log = _hpc(laptop, tmp_path, "log", job, "--on", name)
            assert f"worked in {site.works_in}" in log
            _hpc(laptop, tmp_path, "results", job, "--on", name, "-o", "back")
            _hpc(laptop, tmp_path, "stop", name)
        back = {path.name: path for path in (tmp_path / "back").rglob("*") if path.is_file()}
        assert back["w.txt"].read_text() == "seven"
        eventually(lambda: cluster.jobs() == [], "no job is left", seconds=60)
