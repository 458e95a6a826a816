"""What the extension logs on the node goes to Jupyter's own log, once and at its level."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from jupyter_server.serverapp import ServerApp


class Collect(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.name, record.getMessage()))


@pytest.fixture
def jupyter_log(jp_serverapp: ServerApp) -> Iterator[list[tuple[str, str]]]:
    """The lines of Jupyter's log; at its end, none of them was printed twice."""
    jupyter, root = Collect(), Collect()
    logger = logging.getLogger(jp_serverapp.log.name)
    logger.addHandler(jupyter)
    logging.getLogger().addHandler(root)
    yield jupyter.lines
    logger.removeHandler(jupyter)
    logging.getLogger().removeHandler(root)
    # Where Jupyter's log goes on to the root logger, ours does so with it, and not beside it.
    assert root.lines == (jupyter.lines if logger.propagate else [])


ROOMS = ("node.services.stream", "gpu.sampler", "batch.submit.submit", "slurm.client")


def test_lines_of_all_rooms_come_once(jupyter_log: list[tuple[str, str]]) -> None:
    for room in ROOMS:
        logging.getLogger(f"jupyter_hpc.{room}").info("a line of %s", room)
    assert jupyter_log == [(f"jupyter_hpc.{room}", f"a line of {room}") for room in ROOMS]


def test_secrets_do_not_get_there(jupyter_log: list[tuple[str, str]]) -> None:
    logging.getLogger("jupyter_hpc.runner").warning("http://localhost/lab?token=%s", "verysecret")
    assert jupyter_log == [("jupyter_hpc.runner", "http://localhost/lab?token=<hidden>")]
