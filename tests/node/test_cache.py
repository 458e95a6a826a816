"""One cache for everybody who looks."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_hpc.errors import HpcError, SlurmUnavailable
from jupyter_hpc.node.services import cache as cache_module
from jupyter_hpc.node.services.cache import Cached
from tests.waiting import until


class Source:
    """Counts, waits and fails as it is told; the clock is the test's."""

    def __init__(self) -> None:
        self.calls = 0
        self.now = 1000.0
        self.error: Exception | None = None
        self.released: asyncio.Event | None = None

    async def fetch(self) -> int:
        self.calls += 1
        if self.released is not None:
            await self.released.wait()
        if self.error is not None:
            raise self.error
        return self.calls

    def cached(self, lifetime: float = 60.0, floor: float = 15.0) -> Cached[int]:
        return Cached(self.fetch, lifetime, floor=floor, clock=lambda: self.now)


@pytest.fixture
def source() -> Source:
    return Source()


async def test_fresh_data_is_not_fetched_again(source: Source) -> None:
    cached = source.cached()
    assert (await cached.get()).value == 1
    source.now += 59
    assert (await cached.get()).value == 1
    source.now += 1
    assert (await cached.get()).value == 2


async def test_many_who_ask_at_once_share_one_fetch(source: Source) -> None:
    source.released = asyncio.Event()
    cached = source.cached()
    waiting = [asyncio.create_task(cached.get()) for _ in range(50)]
    await until(lambda: source.calls)
    source.released.set()
    answers = await asyncio.gather(*waiting)
    assert {answer.value for answer in answers} == {1}
    assert source.calls == 1


async def test_one_who_goes_away_does_not_end_it_for_the_others(source: Source) -> None:
    source.released = asyncio.Event()
    cached = source.cached()
    first, second = asyncio.create_task(cached.get()), asyncio.create_task(cached.get())
    await until(lambda: source.calls)
    first.cancel()
    await until(first.done)
    source.released.set()
    assert (await second).value == 1
    assert source.calls == 1


async def test_the_floor_holds_against_everybody(source: Source) -> None:
    cached = source.cached()
    await cached.get()
    for _ in range(10):
        source.now += 1
        await cached.get(newer_than=source.now)
    assert source.calls == 1
    source.now += 5
    assert (await cached.get(newer_than=source.now)).value == 2


async def test_a_failure_keeps_the_old_data_and_says_why(source: Source) -> None:
    cached = source.cached()
    await cached.get()
    source.error = SlurmUnavailable("The controller does not answer.", "Wait.")
    source.now += 60
    old = await cached.get()
    assert (old.value, old.taken_at) == (1, 1000.0)
    assert old.problem is source.error
    source.error = None
    source.now += 60
    assert (await cached.get()).problem is None


async def test_a_failure_without_old_data_is_raised(source: Source) -> None:
    source.error = SlurmUnavailable("The controller does not answer.")
    cached = source.cached()
    with pytest.raises(SlurmUnavailable):
        await cached.get()
    with pytest.raises(SlurmUnavailable):
        await cached.get()
    assert source.calls == 1, "the floor holds for failures too"


async def test_a_failure_that_nobody_thought_of_is_a_failure_too(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    source.error = TypeError("a text where a list should be")
    cached = source.cached()
    with pytest.raises(HpcError, match="The server extension failed"):
        await cached.get()
    assert "a text where a list should be" in caplog.text
    source.error = None
    source.now += 60
    await cached.get()
    source.error = TypeError("again")
    source.now += 60
    problem = (await cached.get()).problem
    assert problem is not None and "failed" in problem.message


async def test_failures_in_a_row_make_the_pause_longer(source: Source) -> None:
    cached = source.cached()
    await cached.get()
    source.error = SlurmUnavailable("no")
    pauses = []
    for _ in range(6):
        source.now += cached.next_fetch()
        await cached.get()
        pauses.append(cached.next_fetch())
    assert pauses == [60, 120, 240, 300, 300, 300]


async def test_old_data_is_given_when_the_new_takes_long(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "WAIT_SECONDS", 0.05)
    cached = source.cached()
    await cached.get()
    source.released = asyncio.Event()
    source.now += 60
    assert (await asyncio.wait_for(cached.get(), 30)).value == 1
    source.released.set()
    await until(lambda: cached.newest is not None and cached.newest.value == 2)


async def test_stop_ends_what_is_under_way(source: Source) -> None:
    source.released = asyncio.Event()
    cached = source.cached()
    waiting = asyncio.create_task(cached.get())
    await until(lambda: source.calls)
    await asyncio.wait_for(cached.stop(), 30)
    with pytest.raises(Exception, match="no data"):
        await asyncio.wait_for(waiting, 30)
