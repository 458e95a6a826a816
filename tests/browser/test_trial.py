"""“Try it” in a real Chromium: a few epochs in the session fill time, memory and the cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.batch.notebooks import AnyCell, Text
from tests.browser.fixtures import Take
from tests.browser.test_batch import (
    PROFILE,
    alices_laptop,
    chosen_in,
    open_dialog,
    open_notebook,
    write_notebook,
)
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import connected

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(300)

TRAINING: list[AnyCell] = [
    Text("# A training"),
    "epochs = 400\nlearning_rate = 0.1",
    "import time\nloss = 1.0\nfor epoch in range(epochs):\n    time.sleep(1.5)\n"
    "    loss *= 1 - learning_rate\n    print(f'epoch {epoch} loss: {loss:.4f}', flush=True)",
]
WAITING = "import os\nprint(epochs, 'begun', flush=True)\nos.system('sleep 98765')"


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    yield from alices_laptop(cluster)


def is_gone(cluster: Cluster) -> bool:
    """Whether no folder of a trial is on the node, and none of its processes."""
    look = "ls -d /tmp/jupyter-hpc-trial-* 2>/dev/null; ps -eo args | grep '[s]leep 98765'; true"
    hosts = (cluster.run(host, ["sh", "-c", look], user="alice") for host in ("cpu01", "gpu01"))
    return all(done.stdout == "" for done in hosts)


def test_a_trial_fills_the_fields_and_can_be_taken_back(
    cluster: Cluster,
    laptop: Laptop,
    page: Page,
    screenshot: Take,
) -> None:
    rates: dict[str, dict[str, Any]] = {
        "budget": {"unit": "credits"},
        "budget.rates": {"cpu_hour": 3},
    }
    laptop.write_profile("mini", {**PROFILE, **rates})
    write_notebook(cluster, "project/tried.ipynb", TRAINING)
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/tried.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_text("costs at most 6 credits").wait_for()
        dialog.get_by_label("Epochs to try").fill("5")
        dialog.get_by_role("button", name="Try it").click()
        dialog.get_by_text(re.compile("Run 2 of 2, with 5 epochs · it says epoch [1-4]")).wait_for()
        screenshot("running")
        dialog.get_by_text("All 400 would take").wait_for()
        time = dialog.get_by_label("Time limit", exact=True)
        expect(time).to_have_value(re.compile("00:1[0-9]:00"))
        expect(dialog.get_by_label("Memory per node")).to_have_value("1G")
        expect(dialog.get_by_text("measured, with 30 % to spare")).to_have_count(2)
        dialog.get_by_text(re.compile("costs at most 0.[5-9]+ credits, by the measured")).wait_for()
        assert is_gone(cluster)
        screenshot("filled")
        dialog.get_by_role("button", name="Take what it filled back").click()
        expect(time).to_have_value("")
        dialog.get_by_text("costs at most 6 credits").wait_for()

        # A part of a minute holds a few epochs: the parts are counted.
        time.fill("00:05:00")
        dialog.get_by_text("How it runs").click()
        dialog.get_by_label("Chain of runs").fill("2")
        dialog.get_by_role("button", name="Try it").click()
        expect(dialog.get_by_label("Chain of runs")).to_have_value("3")
        dialog.get_by_text("measured: so many parts of 00:05:00").wait_for()
        screenshot("parts")


def test_a_closed_notebook_stays_closed(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    """Its choices are kept in its file all the same."""
    path = write_notebook(cluster, "project/closed.ipynb", TRAINING[:2])
    write_notebook(cluster, "project/other.ipynb", ["print(1)"])
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/other.ipynb")
        page.locator(".jp-DirListing-item", has_text="closed.ipynb").click(button="right")
        page.get_by_role("menuitem", name="Run as batch job").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("(an estimate)").wait_for()
        dialog.get_by_label("Time limit", exact=True).fill("00:06:00")
        dialog.get_by_role("tab", name="Job").click()
        dialog.get_by_text("#SBATCH --time=00:06:00").wait_for()
        dialog.get_by_role("button", name="Submit the job").click()
        page.get_by_text("project/closed.ipynb is job").wait_for()
        wait_until(page, lambda: chosen_in(path) == {"request": {"time": "00:06:00"}})
        assert page.locator(".lm-TabBar-tab", has_text="closed.ipynb").count() == 0


def test_a_trial_that_fails_or_is_left_leaves_nothing(
    cluster: Cluster,
    laptop: Laptop,
    page: Page,
    screenshot: Take,
) -> None:
    project = write_notebook(
        cluster, "project/tried.ipynb", [TRAINING[1], "raise ValueError(f'no data for {epochs}')"]
    ).parent
    write_notebook(cluster, "project/plain.ipynb", ["print(1)"])
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/tried.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_role("button", name="Try it").click()
        dialog.get_by_text("Cell 2 ended with ValueError: no data for 1. Its last").wait_for()
        expect(dialog.get_by_label("Time limit", exact=True)).to_have_value("")
        screenshot("failed")

        cells: list[AnyCell] = [TRAINING[1], WAITING]
        write_notebook(cluster, "project/tried.ipynb", cells)
        dialog.get_by_role("button", name="Try it").click()
        dialog.get_by_text("1 begun").wait_for()
        dialog.get_by_role("button", name="End the trial").click()
        dialog.get_by_text("The trial was ended; nothing of it runs any more.").wait_for()
        assert is_gone(cluster)

        dialog.get_by_role("button", name="Try it").click()
        dialog.get_by_text("1 begun").wait_for()
        dialog.get_by_role("button", name="Cancel").click()
        dialog.wait_for(state="detached")
        wait_until(page, lambda: is_gone(cluster))

        write_notebook(cluster, "project/tried.ipynb", ["print(1)"])
        toolbar = page.locator(".jp-NotebookPanel-toolbar")
        toolbar.get_by_role("button", name="Run as batch job").click()
        dialog = page.get_by_role("dialog").filter(has_text="as batch job")
        dialog.get_by_role("button", name="Try it").click()
        dialog.get_by_text("The notebook has no parameter for its epochs").wait_for()
        screenshot("no-epochs")
    assert {path.name for path in project.iterdir()} >= {"tried.ipynb", "plain.ipynb"}
