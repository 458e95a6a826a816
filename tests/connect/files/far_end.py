"""The far end of a transfer as a process of this machine, as the shipped program runs there."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from jupyter_hpc.connect.files.bundle import packed_agent
from jupyter_hpc.connect.files.frames import READY, Wire

START = "import sys, zlib; exec(zlib.decompress(sys.stdin.buffer.read(int(sys.argv[1]))))"


@contextlib.contextmanager
def far_end(python: str = sys.executable) -> Iterator[Wire]:
    argv = [python, "-I", "-c", START, str(len(packed_agent()))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(packed_agent())
        process.stdin.flush()
        assert process.stdout.read(len(READY)) == READY
        try:
            yield Wire(process.stdout, process.stdin)
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.kill()
