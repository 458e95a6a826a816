"""The proxy while the pipe is away."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator

import pytest

from jupyter_hpc.connect.proxy import connection as proxy_connection
from jupyter_hpc.connect.proxy import peer as proxy_peer
from tests.connect.proxy.helpers import Client, World, fetch, running_world
from tests.connect.proxy.opened import HTML, WAITING, channel, held
from tests.connect.tunnel.helpers import next_word
from tests.relay.harness import PATIENCE
from tests.waiting import stays, until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as opened:
        yield opened


# -- the pipe is away -----------------------------------------------------------------------


async def test_running_requests_wait_and_are_answered(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/api/slow/0.3")
        await until(lambda: world.link.streams == 1)
        await world.cut()
        answer = asyncio.create_task(client.answer())
        await stays(lambda: not answer.done(), seconds=1)  # Jupyter has answered meanwhile
        await world.plug()
        assert (await answer).text == "slow"


async def test_websockets_do_not_notice(world: World) -> None:
    socket = await channel(world)
    for number in range(30):
        await socket.write_message(f"{number}")
        if number % 10 == 5:
            await world.cut()
            await socket.write_message(f"cut {number}")
            await world.plug()
            assert await socket.read_message() == f"{number}"
            assert await socket.read_message() == f"cut {number}"
        else:
            assert await socket.read_message() == f"{number}"
    socket.close()


@pytest.mark.usefixtures("long_hold")
async def test_a_new_request_is_held_and_goes_on(world: World) -> None:
    await world.cut()
    asked = asyncio.create_task(fetch(world.port, "/api/hash", "POST", b"x" * 3_000_000))
    page = asyncio.create_task(fetch(world.port, "/lab", **HTML))
    await held(world, 2)
    await stays(lambda: not asked.done() and not page.done(), seconds=0.5)
    await world.plug()
    assert (await asked).text == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert "JupyterLab" in (await page).text


async def test_a_new_request_is_told_to_come_back_after_a_short_hold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_connection, "HOLD_API_SECONDS", 0.5)
    await world.cut()
    began = time.monotonic()
    answers = await asyncio.gather(
        fetch(world.port, "/api/kernels"),
        fetch(world.port, "/api/hash", "POST", b"x" * 2_000_000),
        fetch(world.port, "/api/kernels/x/channels", Upgrade="websocket", Connection="Upgrade"),
    )
    assert 0.4 < time.monotonic() - began < 15
    assert [answer.status for answer in answers] == [503, 503, 503]
    assert all("retry-after" in answer.headers for answer in answers)
    assert world.link.streams == 0, "a stream was opened for a request that was not sent"


async def test_what_jupyterlab_repeats_waits_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JupyterLab takes a 503 here for a lost server; page loads find a connection all the same."""
    monkeypatch.setattr(proxy_connection, "HOLD_API_SECONDS", 0.2)
    await world.cut()
    lists = [f"/api/{name}?1730000000000" for name in ("kernels", "sessions", "terminals")]
    tasks = [asyncio.create_task(fetch(world.port, path, Sec_Fetch_Mode="cors")) for path in lists]
    await held(world, 3)
    await stays(lambda: not any(task.done() for task in tasks), seconds=1.5)
    assert (await fetch(world.port, lists[0], Sec_Fetch_Mode="cors")).status == 504
    assert (await fetch(world.port, lists[0])).status == 503
    assert (await fetch(world.port, "/api/contents", Sec_Fetch_Mode="cors")).status == 503
    await world.plug()
    assert [(await task).status for task in tasks] == [200, 200, 200]


async def test_what_jupyterlab_repeats_ends_with_the_session(world: World) -> None:
    await world.cut()
    asked = asyncio.create_task(fetch(world.port, "/api/sessions", Sec_Fetch_Mode="cors"))
    await held(world)
    world.proxy.disconnect()
    assert (await asked).status == 503


@pytest.mark.usefixtures("long_hold")
async def test_a_held_upload_is_not_collected(world: World) -> None:
    await world.cut()
    body = os.urandom(40_000_000)
    upload = asyncio.create_task(fetch(world.port, "/api/hash", "POST", body))
    await held(world)

    def collected() -> list[int]:
        return [len(getattr(one, "_pending", b"")) for one in world.proxy._connections]

    await stays(lambda: len(collected()) == 1 and 0 < collected()[0] < 2_000_000, seconds=1)
    await world.plug()
    assert (await upload).text == hashlib.sha256(body).hexdigest()


@pytest.mark.usefixtures("long_hold")
async def test_a_client_that_has_said_all_is_still_answered(world: World) -> None:
    async with Client(world.port) as client:
        await world.cut()
        client.send("/api/slow/0", Connection="close")
        client.writer.write_eof()
        await held(world)
        await world.plug()
        # tornado ends a request whose client has closed its side; that end must come through.
        await client.rest()
    await until(lambda: world.link.streams == 0)


async def test_a_page_load_shows_the_status(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_connection, "HOLD_API_SECONDS", 60.0)
    await world.cut()
    world.state["state"] = "reconnecting"
    began = time.monotonic()
    answer = await fetch(world.port, "/lab", **HTML)
    assert answer.status == 200 and "Reconnecting" in answer.text
    assert time.monotonic() - began < 20
    status = await fetch(world.port, "/_jupyter-hpc/status")
    assert b'"open": false' in status.body


async def test_a_reload_on_a_kept_connection_shows_the_status(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Browsers keep connections; without looking at later requests a reload would hang."""
    monkeypatch.setattr(proxy_connection, "HOLD_API_SECONDS", 0.3)
    async with Client(world.port) as page, Client(world.port) as program:
        for client in (page, program):
            client.send("/lab")
            await client.answer()
        await world.cut()
        page.send("/lab", **HTML)
        program.send("/api/kernels")
        assert WAITING in (await page.answer()).text
        assert (await program.answer()).status == 503
        assert await page.rest() == b""
    await world.plug()
    assert "JupyterLab" in (await fetch(world.port, "/lab", **HTML)).text


@pytest.mark.usefixtures("long_hold")
async def test_a_held_request_on_a_kept_connection_goes_on(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/lab")
        await client.answer()
        await world.cut()
        client.send("/api/slow/0")
        await held(world)
        await world.plug()
        assert (await client.answer()).text == "slow"
        client.send("/lab/again")
        assert "lab /lab/again" in (await client.answer()).text


@pytest.mark.usefixtures("alert")
async def test_a_page_load_into_a_silent_pipe_shows_the_status(world: World) -> None:
    """It was sent before anybody could know; after two seconds of silence it is known."""
    assert world.pipe is not None
    await next_word(world.link)
    world.pipe.fall_silent()
    began = time.monotonic()
    answer = await fetch(world.port, "/lab", **HTML)
    assert WAITING in answer.text and 1.4 < time.monotonic() - began < 20
    assert world.link.streams == 0
    world.pipe.speak()
    assert await world.link.wait_up(PATIENCE)
    assert "JupyterLab" in (await fetch(world.port, "/lab", **HTML)).text


@pytest.mark.usefixtures("alert")
async def test_an_answer_that_comes_too_late_is_not_mixed_with_ours(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.pipe is not None
    deciding, may_decide = threading.Event(), threading.Event()

    def slowly(*_: object) -> str:
        deciding.set()
        may_decide.wait(PATIENCE)
        return "me"

    monkeypatch.setattr(proxy_peer, "peer_owner", slowly)
    world.pipe.fall_silent()
    async with Client(world.port) as client:
        client.send("/lab", **HTML)
        await until(deciding.is_set)
        answer = asyncio.create_task(client.rest())
        world.pipe.speak()
        await world.link.facts()
        await stays(lambda: not answer.done(), seconds=0.3)  # Jupyter's answer is there by now
        may_decide.set()
        raw = await answer
    assert raw.count(b"HTTP/1.1 200") == 1 and WAITING.encode() in raw


@pytest.mark.usefixtures("alert", "long_hold")
async def test_a_request_into_a_silent_pipe_waits(world: World) -> None:
    assert world.pipe is not None
    world.pipe.fall_silent()
    async with Client(world.port) as client:
        client.send("/api/slow/0")
        answer = asyncio.create_task(client.answer())
        await until(lambda: world.link.state == "suspect")
        await stays(lambda: not answer.done(), seconds=0.5)
        world.pipe.speak()
        assert (await answer).text == "slow"
