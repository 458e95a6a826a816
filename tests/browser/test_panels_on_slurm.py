"""The panels on a real Slurm: Chromium, through `connect`, on a node of the test cluster."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.lab import QUIET_SETTINGS
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.sessions import connected, run

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.timeout(300)

Take = Callable[[str], None]

#: A name that would break a table read by blanks, a shell and a web page.
HOSTILE = '<b onclick="x">a | b</b> $(id)'

#: The number depends on what else ran on this cluster today.
FINISHED = re.compile(r"^Finished \(\d+\)$")

#: Minutes: the second warning soon follows the first in a job of four minutes.
WARN_AT = [30, 3.6]

GROWING = """\
#!/bin/bash
for number in $(seq 600); do echo "line $number"; sleep 0.5; done
"""


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    """A laptop of alice; her jobs and mallory's are gone afterwards."""
    alice = user_named("alice")
    for plugin, values in (QUIET_SETTINGS | {"jupyter-hpc/warnings": {"minutes": WARN_AT}}).items():
        path = cluster.home("alice") / ".jupyter/lab/user-settings"
        path = path / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values))
    folder = cluster.home("alice") / ".jupyter"
    for each in (folder, *folder.rglob("*")):
        shutil.chown(each, alice.uid, alice.uid)
    yield cluster.laptop("alice", "panels")
    for user in ("alice", "mallory"):
        cluster.run("login1", ["scancel", f"--user={user}"])
    cluster.wait_until_idle()
    shutil.rmtree(folder, ignore_errors=True)


def submit(cluster: Cluster, user: str, name: str, *options: str) -> str:
    command = ["sbatch", "--parsable", "-p", "cpu", "-n1", "--mem=100M", "-t", "10"]
    command += [f"--job-name={name}", f"--chdir={cluster_home(user)}", *options]
    result = cluster.run("login1", command, user=user, input=GROWING, check=True)
    return str(result.stdout).strip()


def cluster_home(user: str) -> str:
    return user_named(user).home


def open_panel(page: Page, laptop: Laptop) -> Locator:
    page.goto(run(laptop, "url", "mini").stdout.strip())
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=60_000)
    page.get_by_role("tab", name="HPC").click()
    panel = page.locator("#jupyter-hpc-panel")
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
        session.wait_for("ready", 60)
        panel = open_panel(page, laptop)
        panel.get_by_role("button", name=HOSTILE).wait_for()
        assert panel.get_by_text("not-mine").count() == 0
        row = panel.get_by_role("row").filter(has_text="waits")
        assert "PENDING" in row.inner_text()
        screenshot("jobs")

        panel.get_by_role("button", name=HOSTILE).click()
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
        wait_until(page, lambda: state(cluster, held) == "RUNNING")
        panel.get_by_label(f"Select job {held}").uncheck()

        panel.get_by_label(f"Select job {growing}").check()
        panel.get_by_role("button", name="Cancel").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the Job").click()
        page.get_by_text(f"Slurm has been told to cancel job {growing}.").wait_for()
        wait_until(page, lambda: state(cluster, growing) == "")
        panel.get_by_role("button", name=FINISHED).click(timeout=60_000)
        over = panel.get_by_role("row").filter(has_text=HOSTILE).first
        over.get_by_text("CANCELLED").wait_for()
        screenshot("cancelled")


def test_the_time_limit_is_announced(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    laptop.write_profile("mini", {"allocation": {"time": "00:04:00"}})
    with connected(laptop, "mini") as session:
        began = time.time()
        session.wait_for("ready", 60)
        open_panel(page, laptop)
        page.get_by_text("This session ends in 3 min: its job reaches the time limit.").wait_for()
        page.get_by_role("button", name="Dismiss").click()
        page.get_by_text("ends in 3 min. All documents are saved.").wait_for()
        assert time.time() - began > 20
        page.locator(".jp-Hpc-status.jp-mod-urgent").wait_for()
        screenshot("last-warning")
