"""The program for the other end, joined into one text, and the command that runs it."""

from __future__ import annotations

import zlib
from functools import cache

from jupyter_hpc.relay.bundle import joined

#: In the order in which they build on each other.
_MODULES = ("frames", "tree", "listing", "sender", "receiver", "agent")

#: The lowest Python that all of it is tested with.
LOWEST_PYTHON = (3, 8)

#: Finds a Python and has it read the program, of $1 packed bytes, from stdin.
_START = """
for python in python3 /usr/libexec/platform-python python3.13 python3.12 python3.11 python3.10 \\
    python3.9 python; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null </dev/null; then
        exec "$python" -c 'import sys, zlib
exec(zlib.decompress(sys.stdin.buffer.read(int(sys.argv[1]))))' "$1"
    fi
done
printf 'no python' >&2
exit 69
"""

#: The exit code of a host that has no Python of use.
NO_PYTHON = 69


@cache
def packed_agent() -> bytes:
    """The whole program for the other end, as it travels."""
    text = joined("jupyter_hpc.connect.files", _MODULES, "The far end of a transfer.")
    return zlib.compress((text + "\nmain()\n").encode("utf-8"), 9)


def agent_argv() -> list[str]:
    """The command that reads packed_agent() from stdin and becomes it."""
    return ["sh", "-c", _START, "jupyter-hpc", str(len(packed_agent()))]
