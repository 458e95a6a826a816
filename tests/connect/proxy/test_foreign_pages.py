"""Pages of others in the user's own Chromium, which try what a session offers to its user."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import tornado.httpserver
import tornado.netutil
import tornado.web
from playwright.async_api import Page, async_playwright

from tests.browser.launching import launch_options
from tests.connect.proxy.helpers import CONTROL_SECRET, running_world

#: All that a page can do by itself: read, ask without reading, send a form, show in a frame.
_ATTACK = """async (base) => {
  const read = [];
  const post = (name, more) => fetch(base + name, { method: 'POST', body: '{}', ...more });
  const secret = { headers: { 'X-Jupyter-Hpc-Secret': 'guessed' } };
  for (const attempt of [
    () => fetch(base),
    () => fetch(base + 'status'),
    () => post('tab'),
    () => post('actions/enter'),
    () => post('actions/stop', secret),
  ]) {
    try { read.push(await (await attempt()).text()); } catch (refused) {}
  }
  for (const name of ['stop', 'renew', 'enter', 'start']) {
    await post('actions/' + name, { mode: 'no-cors', credentials: 'include' }).catch(() => {});
  }
  const frame = document.createElement('iframe');
  frame.name = 'shown';
  document.body.append(frame);
  const loaded = () => new Promise((done) => { frame.onload = done; });
  for (const address of [base, base + 'status']) {
    const shown = loaded();
    frame.src = address;
    await shown;
    try { read.push(frame.contentDocument.documentElement.innerText); } catch (refused) {}
  }
  const form = document.createElement('form');
  Object.assign(form, {
    method: 'POST', enctype: 'text/plain', target: 'shown', action: base + 'actions/stop',
  });
  const field = document.createElement('input');
  Object.assign(field, { name: '{"x": "', value: '"}' });
  form.append(field);
  document.body.append(form);
  const sent = loaded();
  form.submit();
  await sent;
  return read;
}"""


class _Anything(tornado.web.RequestHandler):
    def get(self) -> None:
        self.finish("<!DOCTYPE html><title>A page</title><body>Look here.")


@pytest.fixture
async def other() -> AsyncIterator[int]:
    """The port of a web server that is somebody else's."""
    server = tornado.httpserver.HTTPServer(tornado.web.Application([(r"/", _Anything)]))
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    yield int(sockets[0].getsockname()[1])
    server.stop()


@pytest.fixture
async def tab() -> AsyncIterator[Page]:
    options = launch_options()
    rebound = "--host-resolver-rules=MAP *.example 127.0.0.1"
    options["args"] = [*options.get("args", []), rebound]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        page = await browser.new_page()
        page.set_default_timeout(40_000)
        yield page
        await browser.close()


async def test_they_do_nothing_and_learn_nothing(tab: Page, other: int) -> None:
    async with running_world(opened=False) as world:
        ours = f"http://localhost:{world.port}/_jupyter-hpc/"
        # The second is of the same site: cookies of localhost go along with what it asks.
        for host in ("evil.example", "localhost"):
            await tab.goto(f"http://{host}:{other}/")
            assert _told(await tab.evaluate(_ATTACK, ours)) == [], host
            assert world.done == [], host
        # Its name leads to us: for the browser, our answers are its own.
        foreign = f"http://evil.example:{world.port}/"
        await tab.goto(foreign)
        assert _told(await tab.evaluate(_ATTACK, f"{foreign}_jupyter-hpc/")) == []
        assert world.done == []
        # And the page itself can do it.
        await tab.goto(ours)
        assert _told(await tab.evaluate(_ATTACK, ours)) != []


def _told(texts: list[str]) -> list[str]:
    """What of it is no refusal."""
    assert not any(CONTROL_SECRET in text for text in texts)
    return [text for text in texts if text and '"message": "' not in text]
