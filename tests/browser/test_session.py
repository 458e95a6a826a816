"""A whole session in a real Chromium: connect on the real cluster, seen from its tab."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.fixtures import Take
from tests.browser.steps import run_cell, show_panel
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop, Value
from tests.cluster.layout import user_named
from tests.connect.real.sessions import Session, connected, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.timeout(300)

#: JupyterLab asks once whether it may fetch news; the question would cover the page.
QUIET = {"fetchNews": "false", "checkForUpdates": False}

COUNTER = """\
import time
for number in range({count}):
    print(number, flush=True)
    time.sleep(0.1)
"""

PROFILE: dict[str, Mapping[str, Value]] = {
    "slurm": {"poll_seconds": 2},
    "allocation": {"time": "02:00:00"},
}

#: A counter that only a kernel knows, and something that no file can hold.
COUNTED = """\
import threading
n = globals().get("n", 40) + 1
lock = threading.Lock()
print(n)
"""


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    """A laptop of alice with a profile "mini"; her jobs and mallory's are gone afterwards."""
    settings = ".jupyter/lab/user-settings/@jupyterlab/apputils-extension"
    _write(cluster, f"{settings}/notification.jupyterlab-settings", json.dumps(QUIET))
    fresh = cluster.laptop("alice", "browser")
    fresh.write_profile("mini", PROFILE)
    yield fresh
    cluster.fill_hole()
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.run("login1", ["scancel", "--user=mallory"])
    cluster.wait_until_idle()
    shutil.rmtree(cluster.home("alice") / ".jupyter", ignore_errors=True)


def test_the_bookmark_shows_the_queue_and_becomes_jupyterlab(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    """And in the next job, on another node, the same browser needs no token."""
    _occupy(cluster, "gpu")
    with connected(laptop, "mini", "--partition", "gpu") as session:
        session.wait_for("pending")
        bookmark = _bookmark(laptop)
        page.goto(bookmark)
        page.get_by_role("heading", name="Waiting in the queue").wait_for()
        wait_until(page, lambda: page.get_by_text(_reason(session)).is_visible())
        screenshot("queue")
        cluster.run("login1", ["scancel", "--user=mallory"])
        session.wait_for("ready", 120)
        _lab(page)
        assert page.url.startswith(bookmark) and "token" not in page.url
        assert run(laptop, "stop", "mini").returncode == 0
        session.wait_exit(60)
    with connected(laptop, "mini", "--partition", "cpu") as session:
        ready = session.wait_for("ready", 120)
        assert ready["node"] == "cpu01" and ready["url"] == bookmark
        page.goto(bookmark)
        _lab(page)
        assert page.request.get(bookmark.replace("/lab", "/api/status")).status == 200
        page.locator(".jp-LauncherCard").first.wait_for()
        show_panel(page).get_by_text("cpu01").first.wait_for()
        screenshot("lab")


def test_another_browser_needs_the_token(
    cluster: Cluster, laptop: Laptop, browser: Browser
) -> None:
    with connected(laptop, "mini") as session:
        url = session.wait_for("ready", 120)["url"]
        other = browser.new_context()
        try:
            page = other.new_page()
            page.goto(url)
            assert "/login" in page.url
            assert other.request.get(url.replace("/lab", "/api/status")).status == 403
        finally:
            other.close()


@pytest.mark.parametrize(
    "seconds",
    [
        15,
        pytest.param(30, marks=pytest.mark.faults),
        pytest.param(120, marks=pytest.mark.faults),
    ],
)
def test_a_running_cell_loses_nothing_in_a_black_hole(
    cluster: Cluster, laptop: Laptop, page: Page, seconds: int, screenshot: Take
) -> None:
    count = (seconds + 10) * 10
    _write(cluster, "counter.ipynb", _notebook(COUNTER.format(count=count)))
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        _enter(page, laptop)
        page.goto(_bookmark(laptop) + "/tree/counter.ipynb")
        run_cell(page)
        page.evaluate("window.notReloaded = true")
        wait_until(page, lambda: len(_shown(page)) > 10)
        cluster.black_hole()
        try:
            began = time.monotonic()
            session.wait_for("reconnecting", 60)
            before = len(_shown(page))  # what was under way has come by now
            page.wait_for_timeout(max(0, seconds - (time.monotonic() - began)) * 1000)
            during = len(_shown(page))
            screenshot(f"hole-{seconds}")
        finally:
            cluster.fill_hole()
            back = time.monotonic()
        session.wait_for("reconnected", 60)
        recovered = session.stamps[session.names().index("reconnected")] - back
        print(f"back {recovered:.2f} s after the link")
        wait_until(page, lambda: len(_shown(page)) >= count, 90)
        assert during < before + 30, "the hole was none"
        assert _shown(page) == list(range(count))
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        assert page.evaluate("window.notReloaded") is True
        assert page.locator(".jp-Dialog").count() == 0
        assert session.names().count("ready") == 1


def test_the_page_stays_when_the_session_goes_on_in_another_job(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    """A counter of the page runs over the change; its notebook is saved and has a new kernel."""
    _write(cluster, "moves.ipynb", _notebook("print(globals().setdefault('n', 41)); n += 1"))
    with connected(laptop, "mini", "--renew") as session:
        old = session.wait_for("ready", 120)["job_id"]
        _enter(page, laptop)
        page.goto(_bookmark(laptop) + "/tree/moves.ipynb")
        for number in (41, 42):
            run_cell(page)
            wait_until(page, lambda: _shown(page) == [number])  # noqa: B023 (waited for here)
            page.locator(".jp-NotebookPanel .jp-Cell").first.click()
        page.evaluate("window.counted = 0; setInterval(() => { window.counted += 1 }, 50)")
        shorter = ["scontrol", "update", f"JobId={old}", "TimeLimit=10"]
        cluster.run("login1", shorter, check=True)
        wait_until(page, lambda: session.names().count("ready") == 2, 90)
        new = session.events[-1 - session.names()[::-1].index("ready")]["job_id"]
        page.get_by_text(f"This session goes on in job {new}.").first.wait_for(timeout=60_000)
        screenshot("renewed")
        assert page.evaluate("window.counted") > 20
        assert '"41' not in _read(cluster, "moves.ipynb") and "42" in _read(cluster, "moves.ipynb")
        assert page.locator(".jp-Dialog").count() == 0
        run_cell(page)
        wait_until(page, lambda: _shown(page) == [41])
        assert page.evaluate("window.counted") > 20
        assert page.locator(".jp-Dialog").count() == 0


def test_the_button_in_the_warning_moves_on_with_the_variables(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    """A counter in a kernel's variable goes on in the next job; what cannot is listed."""
    rates: dict[str, Mapping[str, Value]] = {
        "budget": {"unit": "EUR"},
        "budget.rates": {"cpu_hour": 6},
    }
    laptop.write_profile("mini", {**PROFILE, **rates})
    _write(cluster, "counts.ipynb", _notebook(COUNTED))
    with connected(laptop, "mini", "--time", "9", "--cpus", "1") as session:
        session.wait_for("ready", 120)
        _enter(page, laptop)
        page.goto(_bookmark(laptop) + "/tree/counts.ipynb")
        for number in (41, 42):
            run_cell(page)
            wait_until(page, lambda: _shown(page) == [number])  # noqa: B023 (waited for here)
            page.locator(".jp-NotebookPanel .jp-Cell").first.click()
        page.evaluate("window.counted = 0; setInterval(() => { window.counted += 1 }, 50)")
        page.get_by_role("button", name="Renew…").click()
        dialog = page.get_by_role("dialog").filter(has_text="Go on in another job?")
        cost = dialog.get_by_text(re.compile(r"side by side for at most \d minutes, and both are"))
        said = cost.inner_text()
        minutes, euros = re.findall(r"most (\d+) minutes.*about ([0-9.]+) EUR", said)[0]
        assert float(euros) == round(6 * int(minutes) / 60, 2)
        screenshot("renew-dialog")
        dialog.get_by_role("button", name="Renew").click()
        wait_until(page, lambda: session.names().count("ready") == 2, 90)
        notice = page.get_by_role("status", name="Variables")
        notice.get_by_text("1 variable was carried over").wait_for(timeout=60_000)
        assert "lock: TypeError: cannot pickle" in notice.inner_text()
        screenshot("carried-variables")
        run_cell(page)
        wait_until(page, lambda: _shown(page) == [43])
        assert page.evaluate("window.counted") > 20
        assert page.locator(".jp-Dialog").count() == 0
        told = " ".join(event["text"] for event in session.events)
        assert "counts.ipynb: 1 variable carried over, not: threading (a module" in told


def _read(cluster: Cluster, name: str) -> str:
    return (cluster.home("alice") / name).read_text(encoding="utf-8")


def _occupy(cluster: Cluster, partition: str) -> None:
    """Let mallory have every node of the partition."""
    blocker = ["salloc", "--no-shell", "-p", partition, "--exclusive", "-t", "5", "-J", "blocker"]
    cluster.run("login1", blocker, user="mallory", check=True)


def _bookmark(laptop: Laptop) -> str:
    entry = json.loads(run(laptop, "status", "--json").stdout)[0]
    return str(entry["url"])


def _enter(page: Page, laptop: Laptop) -> None:
    """What `jupyter-hpc open` does: the address with its token, once for this browser."""
    page.goto(run(laptop, "url", "mini").stdout.strip())
    _lab(page)


def _lab(page: Page) -> None:
    page.locator("#jp-main-dock-panel").wait_for(timeout=60_000)
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=60_000)


def _shown(page: Page) -> list[int]:
    """The numbers that the notebook shows, in their order."""
    texts = page.locator(".jp-OutputArea-output pre").all_text_contents()
    return [int(number) for number in re.findall(r"^\d+$", "\n".join(texts), re.M)]


def _reason(session: Session) -> str:
    """Why the job waits, by the newest report; the page follows it."""
    reports = [event for event in session.events if event["event"] == "pending"]
    return str(reports[-1]["reason_text"])


def _notebook(source: str) -> str:
    cell: dict[str, object] = {
        "cell_type": "code",
        "id": "counter",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source,
    }
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return json.dumps(
        {"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    )


def _write(cluster: Cluster, name: str, text: str) -> None:
    """A file in alice's home on the cluster, hers."""
    home, alice = cluster.home("alice"), user_named("alice")
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for each in (path, *(p for p in path.parents if _below(p, home))):
        os.chown(each, alice.uid, alice.uid)


def _below(path: Path, folder: Path) -> bool:
    return folder in path.parents
