"""A session's process outlives its reader and its terminal, and takes the files that it may."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from jupyter_hpc.cli.process import Output, outlive_terminal, soon


def test_a_reader_that_is_gone_is_told_of_once_and_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    gone: list[str] = []

    def show(fields: dict[str, Any]) -> None:
        os.write(writing, b"{}\n")

    output = Output(show, lambda: gone.append("gone"))
    for _ in range(3):
        output({})
    os.close(writing)
    assert gone == ["gone"]


def test_what_python_still_holds_for_a_reader_that_is_gone_goes_nowhere() -> None:
    """Else the interpreter ends with 120 and a traceback when it flushes."""
    program = (
        "import sys, time\n"
        "from jupyter_hpc.cli.process import Output\n"
        "from jupyter_hpc.cli.foreground import print_json\n"
        "output = Output(print_json, lambda: sys.stderr.write('gone\\n'))\n"
        "sys.stdin.read()\n"
        "output({}); output({})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate("", timeout=60)
    assert (process.returncode, errors) == (0, "gone\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_a_closed_terminal_ends_nothing() -> None:
    before = signal.getsignal(signal.SIGHUP)
    gone: list[str] = []
    try:
        outlive_terminal(lambda: gone.append("gone"))
        os.kill(os.getpid(), signal.SIGHUP)
        assert gone == ["gone"]
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_limit_on_files_is_raised_as_far_as_it_may_be() -> None:
    program = (
        "import resource\n"
        "from jupyter_hpc.cli.process import more_files\n"
        "from jupyter_hpc.connect.proxy.server import max_connections\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, {hard}))\n"
        "print(max_connections()); more_files(); print(max_connections())\n"
    )
    for hard, expected in ((2000, ["32", "800"]), (300, ["32", "204"])):
        done = subprocess.run(
            [sys.executable, "-c", program.format(hard=hard)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.split() == expected, done.stderr


def test_a_signal_that_comes_after_the_loop_has_ended_is_no_error() -> None:
    """A second Ctrl-C on the way out: Python would show "Exception ignored"."""
    loop, called = asyncio.new_event_loop(), list[int]()
    soon(loop, called.append, 1)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    soon(loop, called.append, 2)
    assert called == [1]
