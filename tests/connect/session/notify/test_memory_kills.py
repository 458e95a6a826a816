"""What the system ended for want of memory, as the laptop tells it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from jupyter_hpc.connect.events import Event, OutOfMemory
from jupyter_hpc.connect.sentences import kernels_lost, sentence
from jupyter_hpc.connect.session.notify.memory_kills import MemoryKillWatch
from jupyter_hpc.connect.tunnel.link import Link


def kill(number: int, *names: str, limit: int | None = 2**30) -> dict[str, Any]:
    kernels = [{"name": name, "path": name, "kernel_id": "k", "session_id": None} for name in names]
    return {"number": number, "at": 1.0, "limit": limit, "kernels": kernels}


def watch() -> tuple[MemoryKillWatch, list[Event]]:
    told: list[Event] = []
    return MemoryKillWatch(cast(Link, None), "token", "mini", told.append), told


def test_each_is_told_once_and_none_of_before() -> None:
    looks, told = watch()
    looks.look({"memory_kills": [kill(1, "old.ipynb")]})
    assert told == [] and looks.count == 1
    looks.look({"memory_kills": [kill(1, "old.ipynb"), kill(2, "big.ipynb")]})
    looks.look({"memory_kills": [kill(1, "old.ipynb"), kill(2, "big.ipynb")]})
    (event,) = told
    assert isinstance(event, OutOfMemory)
    assert (event.kernels, event.limit, looks.count) == (("big.ipynb",), 2**30, 2)
    assert "--mem 2G" in sentence(event)


@pytest.mark.parametrize("answer", [{}, {"memory_kills": 7}, {"memory_kills": [None, {"a": 1}]}])
def test_what_no_server_of_ours_says_is_no_news(answer: dict[str, Any]) -> None:
    looks, told = watch()
    looks.look(answer)
    looks.look(answer)
    assert told == []


@pytest.mark.parametrize(
    ("kernels", "limit", "words"),
    [
        (["a.ipynb"], 500 * 2**20, "The kernel of a.ipynb was ended: the job's memory (500 MB)"),
        (["a", "b"], 64 * 2**30, "The kernels of a, b were ended: the job's memory (64 GB) was"),
        ([], 2**30, "A process of this session was ended: the job's memory (1.0 GB) was full."),
        (["a"], None, "the node had no memory left. It is started again without its variables."),
    ],
)
def test_the_sentence_names_what_was_lost(
    kernels: list[str], limit: int | None, words: str
) -> None:
    assert words in kernels_lost(kernels, limit, "mini")
