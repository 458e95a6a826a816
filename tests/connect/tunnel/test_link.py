"""The laptop's end of the stream: up, suspect, down, and back."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from jupyter_hpc.connect.tunnel import link as link_module
from jupyter_hpc.connect.tunnel.link_events import (
    LinkAlive,
    LinkDown,
    LinkLost,
    LinkSuspect,
    LinkUp,
)
from jupyter_hpc.errors import PipeRefused, SessionTaken
from jupyter_hpc.relay import frames
from tests.connect.tunnel.helpers import Watched, mute_pipe, next_word, opened
from tests.relay.harness import PATIENCE, RelayProcess
from tests.waiting import stays, until


async def test_a_new_link_is_down_and_comes_up(node: RelayProcess) -> None:
    watched = Watched()
    link = watched.link
    assert link.state == "down" and not await link.wait_up(0.01)
    end = opened(link)
    assert end.stream is not None
    end.stream.send(b"sent before there was a pipe")
    await link.attach(await node.pipe())
    assert str(link.state) == "up" and watched.kinds() == [LinkUp]
    await end.wait(lambda: bytes(end.data) == b"sent before there was a pipe")
    await link.close()
    assert link.state == "down"


async def test_the_round_trip_is_measured(node: RelayProcess) -> None:
    watched = Watched()
    began = time.monotonic()
    await watched.link.attach(await node.pipe())
    await until(lambda: watched.link.round_trip)
    assert 0 < watched.link.round_trip < time.monotonic() - began
    await watched.link.close()


@pytest.mark.usefixtures("alert")
async def test_silence_is_suspect_and_a_word_makes_it_good(node: RelayProcess) -> None:
    watched = Watched()
    link = watched.link
    pipe = await mute_pipe(node)
    await link.attach(pipe)
    end = opened(link)
    assert end.stream is not None
    await next_word(link)
    began = time.monotonic()
    pipe.fall_silent()
    end.stream.send(b"into the hole")
    await asyncio.wait_for(link.wait_trouble(), PATIENCE)
    assert 1.4 < time.monotonic() - began < 12
    assert link.state == "suspect" and link.silence > 1.4 and not pipe.closed
    pipe.speak()
    await end.wait(lambda: bytes(end.data) == b"into the hole")
    assert watched.kinds() == [LinkUp, LinkSuspect, LinkAlive] and str(link.state) == "up"
    await link.close()


async def test_doubt_shortens_the_wait(node: RelayProcess) -> None:
    link = Watched().link
    pipe = await mute_pipe(node)
    await link.attach(pipe)
    pipe.fall_silent()
    began = time.monotonic()
    link.doubt()
    await asyncio.wait_for(link.wait_trouble(), PATIENCE)
    assert time.monotonic() - began < link_module.SUSPECT_AFTER_PINGS * link_module.PING_SECONDS / 3
    await link.close()


@pytest.mark.usefixtures("alert")
async def test_a_process_that_was_stopped_does_not_suspect_at_once(node: RelayProcess) -> None:
    """The first tick after a stop sees a long silence, although the bytes are there."""
    watched = Watched()
    await watched.link.attach(await node.pipe())
    await next_word(watched.link)
    time.sleep(3)  # sleep: the whole loop stands still, as under SIGSTOP
    await stays(lambda: watched.kinds() == [LinkUp], seconds=0.2)
    await watched.link.close()


async def test_a_replaced_silent_pipe_loses_nothing(node: RelayProcess) -> None:
    watched = Watched()
    link = watched.link
    end = opened(link)
    assert end.stream is not None
    expected = b""
    for number in range(20):
        pipe = await mute_pipe(node)
        await link.attach(pipe)
        expected += os.urandom(50_000)
        end.stream.send(expected[-50_000:])
        await asyncio.sleep(0.002 * (number % 7))  # sleep: the hole opens sooner or later
        pipe.fall_silent()
        expected += b"in the hole"
        end.stream.send(b"in the hole")
    await link.attach(await node.pipe())
    await end.wait(lambda: len(end.data) >= len(expected))
    assert bytes(end.data) == expected
    assert set(watched.kinds()) == {LinkUp}, "a session was lost"
    await link.close()


async def test_a_closed_pipe_is_told_at_once(node: RelayProcess) -> None:
    watched = Watched()
    pipe = await node.pipe()
    await watched.link.attach(pipe)
    pipe.abort()
    await asyncio.wait_for(watched.link.wait_trouble(), PATIENCE)
    assert watched.kinds() == [LinkUp, LinkDown] and watched.link.state == "down"
    await watched.link.attach(await node.pipe())
    assert watched.kinds() == [LinkUp, LinkDown, LinkUp]
    await watched.link.close()


async def test_a_restarted_relay_resets_what_was_open_and_goes_on(node: RelayProcess) -> None:
    watched = Watched()
    link = watched.link
    await link.attach(await node.pipe())
    end = opened(link)
    assert end.stream is not None
    end.stream.send(b"x")
    await end.wait(lambda: bytes(end.data) == b"x")
    assert node.process is not None
    node.process.kill()
    node.process.wait()
    await watched.saw(LinkDown)
    assert end.reset is None, "it may still be a cut"
    await node.start()
    await link.attach(await node.pipe())
    assert end.reset == frames.ENDED
    assert watched.kinds() == [LinkUp, LinkDown, LinkLost, LinkUp]
    again = opened(link)
    assert again.stream is not None
    again.stream.send(b"new")
    await again.wait(lambda: bytes(again.data) == b"new")
    await link.close()


async def test_a_relay_that_leaves_says_goodbye(node: RelayProcess) -> None:
    watched = Watched()
    await watched.link.attach(await node.pipe())
    end = opened(watched.link)
    node.stop()
    await watched.saw(LinkLost)
    assert end.reset == frames.ENDED and watched.link.state == "down"
    assert not watched.link.taken


async def test_a_wrong_secret_says_so(node: RelayProcess) -> None:
    watched = Watched(secret="not the secret of this session")
    with pytest.raises(PipeRefused, match="refused the secret"):
        await watched.link.attach(await node.pipe())
    assert watched.link.state == "down" and watched.events == []


async def test_the_older_session_of_an_owner_learns_that_it_was_replaced(
    node: RelayProcess,
) -> None:
    old, new = Watched("one laptop"), Watched("one laptop")
    await old.link.attach(await node.pipe())
    end = opened(old.link)
    session = old.link._session
    await new.link.attach(await node.pipe())
    await until(lambda: old.link.taken)
    assert end.reset == frames.ENDED and LinkLost not in old.kinds() and new.link.state == "up"
    pipe = await node.pipe()
    with pytest.raises(SessionTaken):
        await old.link.attach(pipe)
    assert pipe.closed
    # One that was stopped during the takeover comes with its old session.
    stopped = Watched("one laptop")
    stopped.link._session, stopped.link._established, stopped.link._attempt = session, True, 100
    with pytest.raises(SessionTaken):
        await stopped.link.attach(await node.pipe())
    assert stopped.link.taken and stopped.kinds() == []
    assert new.link.state == "up"
    await new.link.close()


async def test_closing_ends_the_session_at_the_relay(node: RelayProcess) -> None:
    first, second = Watched("a"), Watched("b")
    await first.link.attach(await node.pipe())
    await second.link.attach(await node.pipe())
    assert (await second.link.facts())["sessions"] == 2
    end = opened(first.link)
    await first.link.close()
    assert end.reset == frames.ENDED

    async def alone() -> bool:
        return bool((await second.link.facts())["sessions"] == 1)

    await until(alone, "the first session is gone")
    await second.link.close()
