"""The front end in Chromium: the size of its bundle, and 10,000 jobs in the table.

Goals: bundle under 300 KB; first rows under 1 s after the list came; no frame of a fast
scroll over 100 ms. For comparison, the same rows in a table that draws all of them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.fake_api import FakeApi
from tests.browser.fake_values import a_training, some_jobs
from tests.browser.lab import lab_server
from tests.browser.launching import launch_options
from tests.tools import ROOT, find

if TYPE_CHECKING:
    from playwright.sync_api import Page

JOBS = 10_000
PASSES = 5
FIGURES = 50

#: Milliseconds to read the list as the server sends it, and from the click that shows the
#: queue to the frame with its first row.
FIRST_ROW = """
async text => {
  const start = performance.now();
  JSON.parse(text);
  const parsed = performance.now();
  const [queue] = [...document.querySelectorAll('.jp-Hpc-choice')]
    .filter(button => button.textContent.startsWith('Queue'));
  queue.click();
  await new Promise(resolve => {
    const look = () => document.querySelector('.jp-Hpc-column-choice')
      ? requestAnimationFrame(resolve)
      : requestAnimationFrame(look);
    look();
  });
  return [parsed - start, performance.now() - parsed];
}
"""

#: Scrolls to the end in 60 steps, one per frame; resolves with the longest frame.
SLOWEST_FRAME = """
() => new Promise(resolve => {
  const box = document.querySelector('.jp-Hpc-table');
  box.scrollTop = 0;
  const step = (box.scrollHeight - box.clientHeight) / 60;
  let count = 0, before = performance.now(), longest = 0;
  const next = now => {
    longest = Math.max(longest, now - before);
    before = now;
    box.scrollTop += step;
    count += 1;
    if (count < 60) requestAnimationFrame(next);
    else resolve(longest);
  };
  requestAnimationFrame(now => { before = now; requestAnimationFrame(next); });
})
"""

#: From the click on the first job until its curves are drawn and its thumbnails are in the page.
OVERVIEW = """
figures => new Promise(resolve => {
  const start = performance.now();
  [...document.querySelectorAll('.jp-Hpc-job-name button')]
    .find(button => button.textContent === 'train-1000').click();
  const look = () => {
    const images = document.querySelectorAll('.jp-Hpc-figures img').length;
    const curves = document.querySelectorAll('.jp-Hpc-curve-canvas').length;
    if (images === figures && curves) resolve(performance.now() - start);
    else requestAnimationFrame(look);
  };
  look();
})
"""

#: The same number of rows, all drawn, in a table of the same style.
ALL_ROWS = """
count => new Promise(resolve => {
  const start = performance.now();
  const box = document.createElement('div');
  box.className = 'jp-Hpc-table';
  const row = '<tr><td><button>train</button><small>1 · gpu</small></td><td>RUNNING</td></tr>';
  box.innerHTML = '<table><tbody>' + row.repeat(count) + '</tbody></table>';
  document.querySelector('#jupyter-hpc-panel').append(box);
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const took = performance.now() - start;
    box.remove();
    resolve(took);
  }));
})
"""


def main() -> None:
    """Print the sizes and times."""
    static = ROOT / "jupyter_hpc/labextension/static"
    size = sum(file.stat().st_size for file in static.glob("*.js"))
    print(f"bundle              {size / 1000:7.1f} KB  (goal: under 300)")
    if find("chromium") is None:
        print("chromium is not installed: the table is not measured")
        return
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server(Path(folder)) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(**launch_options())
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(60_000)
        measure_table(page, lab.address())
        measure_overview(page)
        browser.close()


def measure_table(page: Page, address: str) -> None:
    api = FakeApi(page)
    api.jobs = some_jobs(JOBS)
    page.goto(address)
    page.wait_for_selector("#jupyter-hpc-panel", state="attached")
    page.get_by_role("tab", name="HPC").click()
    page.locator(".jp-Hpc-job-name").first.wait_for()
    page.get_by_role("button", name="Finished (2)").click()
    page.locator(".jp-Hpc-column-choice").wait_for(state="detached")
    read, shown = page.evaluate(FIRST_ROW, json.dumps(api.jobs))
    first = read + shown
    # the best of some passes: what else the machine does makes frames longer, never shorter
    frame = min(page.evaluate(SLOWEST_FRAME) for _ in range(PASSES))
    everything = page.evaluate(ALL_ROWS, JOBS)
    print(f"first row of {JOBS}  {first:7.1f} ms  (goal: under 1000; reading the list {read:.1f})")
    print(f"longest frame       {frame:7.1f} ms  (goal: under 100; the best of {PASSES} passes)")
    print(f"all rows drawn      {everything:7.1f} ms  ({everything / first:.1f} times as long)")


def measure_overview(page: Page) -> None:
    """From the click on a job to its overview with figures, as fast as they come."""
    api = FakeApi(page)
    api.jobs = some_jobs(3)
    api.overviews["1000"] = a_training("1000", 60, figures=FIGURES)
    page.reload()
    page.get_by_role("button", name="train-1000").wait_for()
    took = page.evaluate(OVERVIEW, FIGURES)
    print(f"overview            {took:7.1f} ms  (goal: under 500; {FIGURES} figures)")


if __name__ == "__main__":
    main()
