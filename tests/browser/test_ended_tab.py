"""The open tab when its server goes away: why, what was saved, and how it goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.fixtures import Take
from tests.browser.steps import run_cell
from tests.browser.test_session import _bookmark, _enter, _notebook, _write, laptop
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.kernels import Kernel
from tests.connect.real.memory import (
    FILL,
    LIMIT_MB,
    end_jupyter_for_want_of_memory,
    needs_memory_groups,
)
from tests.connect.real.sessions import connected, run

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["laptop"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def session(cluster: Cluster, laptop: Laptop) -> Iterator[Laptop]:
    """A laptop whose session is ended, with its manager, after the test."""
    _write(cluster, "notes.ipynb", _notebook("print(6 * 7)"))
    yield laptop
    run(laptop, "stop", "mini")


def _open_notebook(page: Page, laptop: Laptop) -> None:
    _enter(page, laptop)
    page.goto(_bookmark(laptop) + "/tree/notes.ipynb")
    run_cell(page)
    page.get_by_text("42", exact=True).wait_for()
    page.evaluate("window.notReloaded = true")


def _write_more(page: Page) -> None:
    """An edit that is only in the tab."""
    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("  # written before the end")
    page.locator(".jp-mod-dirty").first.wait_for(state="attached")


def _saved(cluster: Cluster) -> str:
    """The notebook as it is on the cluster; it may be written just now."""
    return (cluster.home("alice") / "notes.ipynb").read_text(encoding="utf-8")


def _save_in_vain(page: Page) -> None:
    """Ctrl-S where there is no server: a line in the status bar, and nothing over the page."""
    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.press("Control+s")
    line = page.get_by_text("Not saved yet: notes.ipynb. It is saved as soon as the server")
    line.wait_for()
    assert page.locator(".jp-Dialog").count() == 0
    assert page.locator(".jp-mod-dirty").count() > 0


def _ended(page: Page, reason: str) -> Locator:
    """The notice of the ended session, and nothing that covers the page."""
    notice = page.locator(".jp-Hpc-notice")
    notice.get_by_role("heading", name="The session mini has ended").wait_for(timeout=120_000)
    notice.get_by_text(re.compile(reason)).wait_for()
    assert page.locator(".jp-Dialog").count() == 0
    return notice


def test_a_cancelled_session_is_started_again_in_its_tab(
    cluster: Cluster, session: Laptop, page: Page, screenshot: Take
) -> None:
    """The edit that was never saved is in the file afterwards, and the page was not reloaded."""
    assert run(session, "connect", "mini", "--detach").returncode == 0
    _open_notebook(page, session)
    assert page.title().startswith("mini · ")
    status = page.locator(".jp-Hpc-status").first
    wait_until(page, lambda: "mini: " in (status.text_content() or ""))
    _write_more(page)
    (first,) = cluster.jobs()
    cluster.run("login1", ["scancel", first], user="alice", check=True)
    notice = _ended(page, "cancelled by you")
    notice.get_by_text("Not saved yet: notes.ipynb").wait_for()
    screenshot("ended")
    _save_in_vain(page)
    # Longer than JupyterLab waits before it covers the page with its own dialog.
    page.wait_for_timeout(12_000)
    assert page.locator(".jp-Dialog").count() == 0
    notice.get_by_role("button", name="Start again").click()
    notice.get_by_role("heading", name="The session mini starts again").wait_for()
    notice.get_by_role("heading", name="The session mini runs again").wait_for(timeout=120_000)
    notice.get_by_text("Saved: notes.ipynb").wait_for()
    screenshot("again")
    assert "written before the end" in _saved(cluster)
    notice.get_by_role("button", name="Start a new kernel").click()
    notice.wait_for(state="detached")
    run_cell(page)
    wait_until(page, lambda: "42" in page.locator(".jp-OutputArea-output").all_text_contents()[0])
    assert first not in cluster.jobs() and page.evaluate("window.notReloaded") is True
    assert page.locator(".jp-Dialog").count() == 0


def test_the_reason_outlives_the_program_that_knew_it(
    cluster: Cluster, session: Laptop, page: Page, screenshot: Take
) -> None:
    """`connect --json` ends with its job, and its port with it: the tab has heard why."""
    with connected(session, "mini") as connecting:
        job = connecting.wait_for("ready")["job_id"]
        _open_notebook(page, session)
        _write_more(page)
        cluster.run("login1", ["scancel", job], user="alice", check=True)
        assert connecting.wait_exit() == 1
    notice = _ended(page, "cancelled by you")
    notice.get_by_text("jupyter-hpc does not run on this computer any more").wait_for()
    notice.get_by_text("in a terminal: jupyter-hpc connect mini").wait_for()
    notice.get_by_text("Not saved yet: notes.ipynb").wait_for()
    screenshot("ended-and-gone")


@pytest.mark.faults
def test_the_time_limit_is_said_in_the_tab(cluster: Cluster, session: Laptop, page: Page) -> None:
    assert run(session, "connect", "mini", "--detach", "--time", "1").returncode == 0
    _open_notebook(page, session)
    notice = _ended(page, "reached its time limit")
    notice.get_by_role("button", name="Start again").wait_for()


@pytest.mark.faults
def test_a_lost_node_is_said_in_the_tab(cluster: Cluster, session: Laptop, page: Page) -> None:
    assert run(session, "connect", "mini", "--detach").returncode == 0
    _open_notebook(page, session)
    cluster.cut("cpu01")
    try:
        notice = _ended(page, "A node of the job failed")
        notice.get_by_role("button", name="Start again").wait_for()
    finally:
        cluster.restore("cpu01")
        cluster.run("login1", ["scontrol", "update", "nodename=cpu01", "state=resume"])


@needs_memory_groups
def test_full_memory_is_said_in_the_tab(
    cluster: Cluster, session: Laptop, page: Page, screenshot: Take
) -> None:
    """A kernel is ended, then Jupyter itself, twice: what is lost, what helps, and a new start."""
    assert run(session, "connect", "mini", "--detach", "--mem", f"{LIMIT_MB}M").returncode == 0
    _open_notebook(page, session)
    job = cluster.jobs()
    kernel = Kernel(session)
    kernel.start("notes.ipynb", FILL)
    lost = page.locator(".Toastify__toast").filter(has_text="The kernel of notes.ipynb was ended")
    lost.filter(has_text=f"({LIMIT_MB} MiB). For more: --mem {2 * LIMIT_MB}M").wait_for()
    screenshot("kernel-lost")
    restarting = page.get_by_role("dialog").filter(has_text="Kernel Restarting")
    restarting.get_by_role("button").last.click()
    lost.get_by_role("button", name="Details").click()
    panel = page.locator("#jupyter-hpc-panel")
    panel.get_by_text("Out of memory at").wait_for()
    panel.get_by_text(f"jupyter-hpc connect mini --mem {2 * LIMIT_MB}M").wait_for()
    screenshot("panel")

    end_jupyter_for_want_of_memory(cluster, kernel)
    notice = page.locator(".jp-Hpc-notice")
    notice.get_by_role("heading", name="The session mini runs again").wait_for(timeout=60_000)
    notice.get_by_text(f"the job's memory ({LIMIT_MB} MB) was full").wait_for()
    screenshot("jupyter-lost")

    end_jupyter_for_want_of_memory(cluster, kernel)
    notice = _ended(page, f"the job's memory .{LIMIT_MB} MB. was full")
    screenshot("out-of-memory")
    notice.get_by_role("button", name="Start again").click()
    notice.get_by_role("heading", name="The session mini runs again").wait_for(timeout=60_000)
    assert cluster.jobs() == job, "the same resources: the job that stayed"
    assert page.locator(".jp-Dialog").count() == 0
    assert page.evaluate("window.notReloaded") is True


def test_a_cut_is_a_quiet_line_and_an_ended_program_a_notice(
    cluster: Cluster, session: Laptop, page: Page, screenshot: Take
) -> None:
    assert run(session, "connect", "mini", "--detach").returncode == 0
    _open_notebook(page, session)
    _write_more(page)
    cluster.black_hole()
    try:
        page.get_by_text("mini: interrupted, reconnecting").wait_for(timeout=60_000)
        screenshot("cut")
        assert page.locator(".jp-Hpc-notice, .jp-Dialog").count() == 0
        _save_in_vain(page)
        screenshot("unsaved")
    finally:
        cluster.fill_hole()
    status = page.locator(".jp-Hpc-status").first
    wait_until(page, lambda: "left" in (status.text_content() or ""))
    wait_until(page, lambda: "written before the end" in _saved(cluster))
    wait_until(page, lambda: page.get_by_text("Not saved yet").count() == 0)
    assert page.locator(".jp-Hpc-notice, .jp-Dialog").count() == 0
    _write_more(page)
    assert run(session, "disconnect", "mini").returncode == 0
    notice = page.locator(".jp-Hpc-notice")
    notice.get_by_text("jupyter-hpc connect mini").wait_for()
    notice.get_by_text("Not saved yet: notes.ipynb").wait_for()
    screenshot("gone")
    assert run(session, "connect", "mini", "--detach").returncode == 0
    notice.get_by_text("Saved: notes.ipynb").wait_for()
    assert page.locator(".jp-Dialog").count() == 0
    # The same server with the same kernel.
    assert notice.get_by_role("button", name="Start a new kernel").count() == 0
    assert page.evaluate("window.notReloaded") is True
