"""The page of runs on the real cluster: a sweep is compared, run again, and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.batch.notebooks import AnyCell
from tests.browser.steps import choose_command
from tests.browser.test_batch import laptop, open_dialog, open_notebook, write_notebook
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import connected

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["laptop"]  # a fixture

pytestmark = [pytest.mark.timeout(300), pytest.mark.faults]

QUICK: list[AnyCell] = [
    "lr = 0.1\nepochs = 3",
    "for epoch in range(1, epochs + 1):\n    print(f'epoch {epoch} loss: {lr * epoch:.2f}')",
]


def test_a_sweep_is_compared_run_again_and_deleted(
    cluster: Cluster, laptop: Laptop, page: Page
) -> None:
    write_notebook(cluster, "project/quick.ipynb", QUICK)
    with connected(laptop, "mini") as session:
        session.wait_for("ready", 120)
        open_notebook(page, laptop, "project/quick.ipynb")
        dialog = open_dialog(page)
        dialog.get_by_label("Time limit", exact=True).fill("00:05:00")
        dialog.get_by_label("lr").fill("0.1,0.2")
        dialog.get_by_text("2 runs").first.wait_for()
        submit = dialog.get_by_role("button", name="Submit the job")
        expect(submit).to_be_enabled()
        submit.click()
        page.get_by_text("project/quick.ipynb is job").first.wait_for()
        choose_command(page, "All Runs")
        runs = page.locator(".jp-Hpc-runspage")
        sweep = runs.get_by_role("row").filter(has_text="sweep of 2")
        expect(sweep).to_contain_text("2 ✓ done", timeout=150_000)
        (folder,) = cluster.home("alice").glob("project/hpc-batch/quick/runs/*")

        sweep.get_by_role("checkbox").check()
        runs.get_by_role("button", name="Compare").click()
        table = runs.get_by_role("table", name="What differs")
        expect(table.get_by_role("row", name="lr")).to_contain_text("0.2")
        expect(table.get_by_role("row", name="loss")).to_contain_text("0.3 best")
        runs.get_by_role("heading", name="loss").wait_for()

        sweep.get_by_role("checkbox").uncheck()
        sweep.get_by_role("button").click()
        runs.get_by_role("row").filter(has_text="lr 0.2").get_by_role("checkbox").check()
        runs.get_by_role("button", name="Run again…").click()
        again = page.locator(".jp-Hpc-dialog")
        expect(again.get_by_label("lr")).to_have_value("0.2")
        expect(again.get_by_label("Time limit", exact=True)).to_have_value("00:05:00")
        again.get_by_role("button", name="Cancel").click()

        choose_command(page, "All Runs")
        sweep.get_by_role("checkbox").check()
        runs.get_by_role("button", name="Delete…").click()
        question = page.get_by_role("dialog")
        expect(question).to_contain_text(folder.name)
        assert folder.exists()
        question.get_by_role("button", name="Delete the Run").click()
        runs.get_by_text("No run was submitted yet.").wait_for()
        assert not folder.exists() and list(folder.parent.iterdir()) == []
