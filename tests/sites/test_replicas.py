"""The usual workflow on a replica of each site, with the built-in profile and a bare account."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.fixtures import require
from tests.cluster.replica import Replica
from tests.cluster.switches import Switches
from tests.connect.real.sessions import Session, connected
from tests.sites import demands
from tests.sites.desk import Desk
from tests.sites.table import ALWAYS, SITES, Site
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(600)

_ENVIRONMENT = "/home/alice/.local/share/jupyter-hpc/env"


def _failed(lines: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: line["text"] for name, line in lines.items() if line["outcome"] == "failed"}


def _prepare(desk: Desk, site: Site) -> None:
    """From a bare account to an environment: nothing but that is missing, and then nothing."""
    lines = desk.doctor(1)
    assert set(_failed(lines)) == {"jupyter"}, _failed(lines)
    assert f"jupyter-hpc setup {desk.name}" in lines["jupyter"]["fix"]
    said = desk.hpc("setup", desk.name, *site.setup)
    assert "It starts on" in said and f"jupyter-hpc connect {desk.name}" in said, said
    lines = desk.doctor(0)
    assert _failed(lines) == {} and lines["extension"]["outcome"] == "ok", lines


def _look(desk: Desk, site: Site, session: Session) -> None:
    """What the panel shows of the session, the cluster and its storage is this site's."""
    assert "job" in desk.panel(session, "session")
    partitions = {each["name"] for each in desk.panel(session, "cluster")["partitions"]}
    assert partitions == {each.split()[0] for each in site.shape.partitions}
    modules = ["python/3.11"] if site.shape.modules else []
    assert desk.panel(session, "modules")["modules"] == modules
    for path, words in (("jobs", "jobs"), ("storage", "places"), *site.panel):
        shown = json.dumps(desk.panel(session, path))
        assert words in shown, (path, words, shown)


def _run(desk: Desk, site: Site) -> None:
    """A batch job with the site's staging: where it worked, in what, and what it brought back."""
    words = ("submit", "train.ipynb", "--on", desk.name, "--stage-in", "data.txt")
    assert " longer than " in desk.hpc(*words, "--time", "40-00:00:00", codes=(2, 4))
    job = desk.hpc(*words, "--wait").strip()
    log = desk.hpc("log", job, "--on", desk.name)
    assert f"worked in {site.works_in}" in log, log
    module = "3.11" if "--module" in site.setup else "no module"
    assert f"python of {_ENVIRONMENT}.d/1 after {module}" in log, log
    desk.hpc("results", job, "--on", desk.name, "-o", "back")
    back = {path.name: path for path in (desk.folder / "back").rglob("*") if path.is_file()}
    assert back["w.txt"].read_text() == "seven"


@pytest.mark.parametrize(
    "name",
    [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.sites) for name in SITES],
)
def test_the_usual_workflow(name: str, tmp_path: Path) -> None:
    site = SITES[name]
    switches = Switches(two_gpu_nodes=True, **dict(site.switches))
    require(switches)
    with Replica(site.shape, switches) as cluster:
        demands.check(cluster)
        desk = Desk(cluster, name, site, tmp_path)
        _prepare(desk, site)
        with connected(desk.laptop, name, *site.connect) as session:
            ready = session.wait_for("ready", 180)
            assert ready["transport"] == site.transport
            _look(desk, site, session)
            _run(desk, site)
            desk.hpc("stop", name)
        eventually(lambda: cluster.jobs() == [], "no job is left", seconds=60)
