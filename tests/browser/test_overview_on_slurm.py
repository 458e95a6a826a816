"""A sweep of six that is looked at while it runs, on the real cluster: curves, table, one run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.batch.notebooks import AnyCell
from tests.browser.fixtures import Take
from tests.browser.test_batch import laptop, open_dialog, open_notebook, write_notebook
from tests.browser.waiting import wait_until
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import connected

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["laptop"]  # a fixture

pytestmark = pytest.mark.timeout(300)

RATES = "0.1,0.2,0.3,0.4,0.5,0.6"
EPOCHS = 12

#: It takes as long as a person needs to look.
SLOW: list[AnyCell] = [
    f"lr = 0.1\nepochs = {EPOCHS}",
    "import time\n"
    "for epoch in range(1, epochs + 1):\n"
    "    time.sleep(1)\n"
    "    print(f'epoch {epoch}/{epochs} loss: {(1 - lr) ** epoch:.4f}', flush=True)",
]


def test_a_sweep_of_six_while_it_runs(
    cluster: Cluster, laptop: Laptop, page: Page, screenshot: Take
) -> None:
    write_notebook(cluster, "project/slow.ipynb", SLOW)
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/slow.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_label("Time limit", exact=True).fill("00:05:00")
        dialog.get_by_label("lr").fill(RATES)
        dialog.get_by_text("6 runs").first.wait_for()
        submit = dialog.get_by_role("button", name="Submit the job")
        expect(submit).to_be_enabled()
        submit.click()
        job = re.findall(
            r"is job (\d+)", page.get_by_text("project/slow.ipynb is job").first.inner_text()
        )[0]
        page.get_by_role("button", name="Open the Job").click()
        view = page.locator(".jp-Hpc-jobview")
        loss = view.get_by_role("slider", name="loss: values")
        loss.wait_for(timeout=90_000)

        def shown() -> int:
            return int(loss.get_attribute("aria-valuenow") or 0)

        first = shown()
        assert first < EPOCHS, "it is looked at while it runs"
        wait_until(page, lambda: shown() > first)
        screenshot("sweep")
        table = view.get_by_role("table", name="the best loss first")
        expect(table.get_by_role("row")).to_have_count(7)
        expect(table.get_by_text("done", exact=False)).to_have_count(6, timeout=150_000)
        best = table.get_by_role("row").nth(1)
        reached = f"{float(f'{(1 - 0.6) ** EPOCHS:.4f}'):g}"
        expect(best).to_contain_text("0.6")
        assert view.locator(".jp-Hpc-curve-canvas .jp-Hpc-curve-line").count() == 6
        best.get_by_role("button").first.click()
        expect(loss).to_have_attribute("aria-valuetext", f"epoch {EPOCHS}: lr 0.6 {reached}")
        expect(view.locator(".jp-Hpc-curve-canvas .jp-Hpc-curve-line")).to_have_count(1)
        log = next(cluster.home("alice").glob(f"project/hpc-batch/slow/runs/*/logs/{job}_6.out"))
        said = re.findall(rf"epoch {EPOCHS}/{EPOCHS} loss: ([0-9.]+)", log.read_text())
        assert [float(each) for each in said] == [float(reached)]
