"""The panels on a real Slurm: Chromium, through `connect`, on a node of the test cluster."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.fixtures import Take
from tests.browser.lab import QUIET_SETTINGS
from tests.browser.steps import hold_notifications, show_panel
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import ENV_SETUP, Laptop
from tests.cluster.layout import user_named
from tests.connect.real.sessions import connected, run
from tests.gpu.library import library_folder

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(300)

#: A name that would break a table read by blanks, a shell and a web page.
HOSTILE = '<b onclick="x">a | b</b> $(id)'

#: The number depends on what else ran on this cluster today.
FINISHED = re.compile(r"^Finished \(\d+\)$")

#: In minutes: warnings before the end, and idleness that is mentioned.
SETTINGS = {
    "jupyter-hpc/warnings": {"minutes": [30, 10]},
    "jupyter-hpc/idle": {"minutes": 0.05},
    "@jupyterlab/apputils-extension/themes": {"theme": "JupyterLab Dark"},
}

GROWING = """\
#!/bin/bash
for number in $(seq 600); do echo "line $number"; sleep 0.5; done
"""


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    """A laptop of alice; her jobs and mallory's are gone afterwards."""
    alice = user_named("alice")
    for plugin, values in (QUIET_SETTINGS | SETTINGS).items():
        path = cluster.home("alice") / ".jupyter/lab/user-settings"
        path = path / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    folder = cluster.home("alice") / ".jupyter"
    floor = {"HpcExtension": {"poll_floor": 2}}  # what was done shows soon
    (folder / "jupyter_server_config.json").write_text(json.dumps(floor))
    for each in (folder, *folder.rglob("*")):
        shutil.chown(each, alice.uid, alice.uid)
    yield cluster.laptop("alice", "panels")
    for user in ("alice", "mallory"):
        cluster.run("login1", ["scancel", f"--user={user}"])
    cluster.wait_until_idle()
    for made in (folder, cluster.home("alice") / "nvml"):
        shutil.rmtree(made, ignore_errors=True)


def submit(cluster: Cluster, user: str, name: str, *options: str) -> str:
    command = ["sbatch", "--parsable", "-p", "cpu", "-n1", "--mem=100M", "-t", "10"]
    command += [f"--job-name={name}", f"--chdir={cluster_home(user)}", *options]
    result = cluster.run("login1", command, user=user, input=GROWING, check=True)
    return str(result.stdout).strip()


def cluster_home(user: str) -> str:
    return user_named(user).home


def open_panel(page: Page, laptop: Laptop) -> Locator:
    page.goto(run(laptop, "url", "mini").stdout.strip())
    panel = show_panel(page)
    hold_notifications(page)
    panel.get_by_text("Time left").wait_for()
    return panel


def state(cluster: Cluster, job: str) -> str:
    asked = ["squeue", "--noheader", "--format=%T", f"--jobs={job}"]
    return str(cluster.run("login1", asked).stdout).strip()


def test_my_jobs_their_log_and_a_cancel(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    growing = submit(cluster, "alice", HOSTILE)
    held = submit(cluster, "alice", "waits", "--hold")
    submit(cluster, "mallory", "not-mine")
    laptop.write_profile("mini", {"allocation": {"time": "02:00:00"}})
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        panel = open_panel(page, laptop)
        panel.get_by_role("button", name=HOSTILE).wait_for()
        expect(panel.get_by_text("not-mine")).to_have_count(0)
        row = panel.get_by_role("row").filter(has_text="waits")
        expect(row).to_contain_text("held")
        screenshot("jobs")

        panel.get_by_role("button", name=HOSTILE).click()
        page.locator(".jp-Hpc-tabs").get_by_role("tab", name="Log").click()
        log = page.get_by_role("region", name="Output")
        log.get_by_text("line 2", exact=False).first.wait_for()
        lines = log.inner_text().count("line")
        wait_until(page, lambda: log.inner_text().count("line") > lines + 3)
        assert "line 1\nline 2\n" in log.inner_text()
        screenshot("log")

        panel.get_by_label(f"Select job {held}").check()
        panel.get_by_role("button", name="Release").click()
        page.get_by_role("dialog").get_by_role("button", name="Release").click()
        page.get_by_text(f"Slurm has been told to release job {held}.").wait_for()
        wait_until(page, lambda: state(cluster, held) == "RUNNING", 90)
        expect(panel.get_by_label(f"Select job {held}")).not_to_be_checked()

        panel.get_by_label(f"Select job {growing}").check()
        panel.get_by_role("button", name="Cancel").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the Job").click()
        page.get_by_text(f"Slurm has been told to cancel job {growing}.").wait_for()
        wait_until(page, lambda: state(cluster, growing) == "", 90)
        panel.get_by_role("button", name=FINISHED).click()
        over = panel.get_by_role("row").filter(has_text=HOSTILE).first
        over.get_by_text("cancelled").wait_for(timeout=90_000)  # the database lags behind
        screenshot("cancelled")


def test_the_time_limit_and_an_idle_gpu_are_announced(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    library = cluster.home("alice") / "nvml"
    shutil.copytree(library_folder(), library, dirs_exist_ok=True)
    library.chmod(0o755)
    driver = f"export LD_LIBRARY_PATH={cluster_home('alice')}/nvml FAKE_NVML_LOAD=0"
    laptop.write_profile(
        "mini",
        {
            "allocation": {"time": "00:25:00", "partition": "gpu", "gpus": 1},
            "environment": {"setup": [*ENV_SETUP, driver]},
        },
    )
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        panel = open_panel(page, laptop)
        page.locator("body[data-jp-theme-name='JupyterLab Dark']").wait_for(state="attached")
        page.get_by_text(re.compile(r"ends in 2\d min: its job reaches the time limit")).wait_for()
        page.get_by_text(re.compile(r"GPU 0 has been idle for \d+ (s|min)\.")).wait_for()
        screenshot("idle")
        # Nobody waits for the limit: it comes nearer, as an administrator can make it.
        asked = ["squeue", "--noheader", "--format=%A", "--user=alice"]
        job = str(cluster.run("login1", asked).stdout).strip()
        shorter = ["scontrol", "update", f"JobId={job}", "TimeLimit=9"]
        cluster.run("login1", shorter, check=True)
        panel.get_by_role("button", name="Ask Slurm now").click()
        page.get_by_text(re.compile(r"ends in \d min\. All documents are saved\.")).wait_for()
        page.locator(".jp-Hpc-status.jp-mod-urgent").wait_for()
        screenshot("last-warning")
