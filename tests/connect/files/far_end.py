"""The far end of a transfer as a process of this machine, as the shipped program runs there."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import cast

from jupyter_hpc.connect.files.bundle import ISOLATED, PROGRAM, packed_agent
from jupyter_hpc.connect.files.frames import READY, Wire


@contextlib.contextmanager
def far_end(python: str = sys.executable) -> Iterator[Wire]:
    argv = [python, *ISOLATED, "-c", PROGRAM]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(packed_agent())
        process.stdin.flush()
        assert process.stdout.read(len(READY)) == READY
        try:
            yield Wire(cast(BufferedReader, process.stdout), process.stdin)
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.kill()
