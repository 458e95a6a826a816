"""connect on sites with other rules, each a real cluster with one switch turned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import connected, run
from tests.waiting import throughout

ClusterFactory = Callable[..., Cluster]


def _laptop(cluster: Cluster, user: str = "alice") -> Laptop:
    laptop = cluster.laptop(user, "sites")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    return laptop


def _warnings(events: list[dict[str, object]]) -> str:
    return " ".join(str(event["text"]) for event in events if event["event"] == "warning")


def _end(cluster: Cluster) -> None:
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def test_a_site_that_ends_allocations_without_a_shell(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, inactive_limit=30)
    laptop = _laptop(cluster)
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        assert "InactiveLimit" in _warnings(session.events)
        shown = cluster.run("login1", ["squeue", "-h", "-o", "%j %o"]).stdout
        assert shown.startswith("jupyter-hpc-mini ")
        session.end()
    _end(cluster)
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        assert "InactiveLimit" not in _warnings(session.events), "remembered, not found again"
    _end(cluster)


def test_a_site_that_takes_batch_scripts_only(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, batch_only=True)
    with connected(_laptop(cluster), "mini") as session:
        session.wait_for("ready")
        assert "sbatch instead of salloc" in _warnings(session.events)
    _end(cluster)


def test_asking_for_salloc_there_is_refused_in_words(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, batch_only=True)
    failed = run(_laptop(cluster), "connect", "mini", "--launch", "salloc")
    assert failed.returncode == 1
    assert "Error: Slurm refused the job: Interactive jobs are not allowed" in failed.stderr
    assert cluster.jobs() == []


def test_a_site_that_kills_processes_at_logout(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, kill_at_logout=True)
    laptop = _laptop(cluster)
    with connected(laptop, "mini") as session:
        ready = session.wait_for("ready")
        session.end()
    throughout(lambda: cluster.jobs() == [ready["job_id"]], seconds=1)
    with connected(laptop, "mini") as session:
        assert session.wait_for("ready")["job_id"] == ready["job_id"]
    _end(cluster)


@pytest.mark.parametrize(
    ("switches", "rung"),
    [
        ({"node_ssh": "denied"}, "srun"),
        ({"laptop_key_on_nodes": False}, "login-ssh"),
        ({"login_forwarding": False}, "login-ssh"),
        ({"adopt": True}, "ssh"),
        ({"private_tmp": True}, "srun"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_each_rung_of_the_ladder(
    cluster_with: ClusterFactory, switches: dict[str, object], rung: str
) -> None:
    cluster = cluster_with(accounting=False, **switches)
    laptop = _laptop(cluster)
    with connected(laptop, "mini") as session:
        ready = session.wait_for("ready", 60)
        assert ready["transport"] == rung
        assert session.get("/api")[0] == 200
        session.end()
    with connected(laptop, "mini") as session:
        assert session.wait_for("ready", 60)["transport"] == rung
    _end(cluster)


@pytest.mark.parametrize("user", ["tara", "fiona", "chad"])
def test_login_shells(cluster: Cluster, user: str) -> None:
    with connected(_laptop(cluster, user), "mini") as session:
        session.wait_for("ready")
        assert session.get("/api")[0] == 200
        assert run(session.laptop, "stop", "mini").returncode == 0


def test_without_jupyter_hpc_on_the_cluster(cluster_with: ClusterFactory) -> None:
    cluster = cluster_with(accounting=False, product_installed=False)
    with connected(_laptop(cluster), "mini") as session:
        session.wait_for("ready", 60)
        said = session.wait_for("warning")["text"]
        able = cluster.switches.takes_product
        assert ("pip install jupyter-hpc" if able else "Python 3.10 or newer") in said
        assert session.get("/api")[0] == 200
    _end(cluster)


def test_a_broken_environment_says_which_line(cluster: Cluster) -> None:
    laptop = cluster.laptop("alice", "broken")
    laptop.write_profile(
        "mini", {"environment": {"setup": ["true", "echo hello from the line; false"]}}
    )
    failed = run(laptop, "connect", "mini")
    assert failed.returncode == 1
    assert "Environment line 2 failed" in failed.stderr
    assert "hello from the line" in failed.stderr
    laptop.write_profile("mini", {"environment": {"setup": ["true"]}})
    failed = run(laptop, "connect", "mini")
    assert failed.returncode == 1
    assert "jupyter" in failed.stderr
    assert "pip install jupyterlab" in failed.stderr
    _end(cluster)
