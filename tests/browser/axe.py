"""What axe-core finds in our own parts of a page, for those who do not see it or use no mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.tools import ROOT, unavailable

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = ROOT / "labextension/node_modules/axe-core/axe.min.js"

#: What keeps somebody out; less is a matter of taste, and of the page around our elements.
COUNTED = ("serious", "critical")

#: What is not ours: the colours of a job's own lines, and what a notebook drew into frames.
_RUN = """
async roots => {
  const {violations} = await axe.run(
    {include: roots.map(root => [root]), exclude: [[".jp-Hpc-log [class*='ansi-']"]]},
    {resultTypes: ['violations'], iframes: false});
  return violations.flatMap(({id, impact, help, nodes}) =>
    nodes.map(({target, failureSummary}) => ({
      rule: id, impact, help, node: target.join(' '), why: failureSummary})));
}
"""


def violations(page: Page, *roots: str) -> list[str]:
    """Each serious or critical one below these selectors: rule, node and help."""
    if not AXE.is_file():
        unavailable("labextension/node_modules is missing; `make install` creates it")
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=AXE)
    for root in roots:
        assert page.locator(root).count() > 0, f"nothing to look at: {root}"
    return [
        f"{found['rule']} ({found['impact']}): {found['node']}: {found['help']}\n{found['why']}"
        for found in page.evaluate(_RUN, list(roots))
        if found["impact"] in COUNTED
    ]


class Findings:
    """What is found in several places, so that one test tells of all."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: list[str] = []

    def look(self, where: str, *roots: str) -> None:
        self._found += [f"{where}: {line}" for line in violations(self._page, *roots)]

    def tell(self) -> None:
        """Fail if there is one."""
        assert not self._found, "\n".join(self._found)
