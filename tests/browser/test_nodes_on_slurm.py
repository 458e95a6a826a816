"""A session on two nodes, as it is seen in JupyterLab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.fixtures import Take
from tests.browser.steps import hold_notifications, show_panel
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.connect.real.sessions import connected, run
from tests.connect.real.two_nodes import FIRST, SECOND, asked_for, laptop_for, nodes_of_steps

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def wide(cluster_with: ClusterFactory) -> Iterator[Cluster]:
    cluster = cluster_with(accounting=False, two_gpu_nodes=True)
    yield cluster
    cluster.heal()


def test_the_panel_has_the_gpus_of_both_nodes_and_a_terminal_reaches_both(
    wide: Cluster, page: Page, screenshot: Take
) -> None:
    gpus = [{"index": number, "name": f"Simulated {number}", "load": 7} for number in range(4)]
    numbers = json.dumps({"time": 4e9, "gpus": gpus})
    (wide.home("alice") / "gpus.json").write_text(numbers, encoding="utf-8")
    setup = "export JUPYTER_HPC_SIMULATED_GPUS=/home/alice/gpus.json"
    laptop = laptop_for(wide, "gpus-per-node", setup)
    with connected(laptop, *asked_for("2")) as session:
        session.wait_for("ready", 120)
        page.goto(run(laptop, "url", "mini").stdout.strip())
        panel = show_panel(page)
        hold_notifications(page)
        panel.get_by_text("2 nodes · 4").wait_for()
        for node in (FIRST, SECOND):
            panel.get_by_role("heading", name=node).wait_for(timeout=60_000)
        wait_until(page, lambda: set(nodes_of_steps(wide)) == {FIRST, SECOND})
        screenshot("panel")

        page.locator(".jp-LauncherCard[title='Start a new terminal session']").click()
        page.locator(".jp-Terminal .xterm-screen").click(timeout=60_000)
        page.keyboard.type("srun hostname >~/reached\n")
        reached = wide.home("alice") / "reached"
        wait_until(
            page,
            lambda: reached.exists() and set(reached.read_text().split()) == {FIRST, SECOND},
            60,
        )

        page.get_by_role("tab", name="HPC").click()  # closes the panel
        panel.wait_for(state="hidden")
        wait_until(page, lambda: set(nodes_of_steps(wide)) == {FIRST}, 90)
