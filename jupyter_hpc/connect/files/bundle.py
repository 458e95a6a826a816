"""The program for the other end, joined into one text, and the command that runs it."""

from __future__ import annotations

import zlib
from functools import cache

from jupyter_hpc.relay.bundle import joined

#: In the order in which they build on each other.
_MODULES = ("frames", "tree", "listing", "sender", "summing", "receiver", "agent")

#: The lowest Python that all of it is tested with.
LOWEST_PYTHON = (3, 9)

#: What Python runs: the program, of so many packed bytes as the first line of stdin says.
PROGRAM = """\
import sys
if sys.version_info < (3, 9):
    sys.exit(69)
import io, zlib
reader = io.BufferedReader(io.FileIO(0, closefd=False), 1 << 15)
exec(zlib.decompress(reader.read(int(reader.readline()))))
main(reader)"""

#: Nothing of the user's own, such as a json.py in the home folder, is taken for Python's.
ISOLATED = ("-I", "-S")

#: The exit code of a host that has no Python of use.
NO_PYTHON = 69

#: Finds a Python, which runs $1. One that is too old says 69, or 2 if it does not know the options,
#: and one that only leads to another says 126 or 127 without it; 0 and 1 come from the program.
_START = f"""
for python in python3 /usr/libexec/platform-python python3.13 python3.12 python3.11 python3.10 \\
    python3.9 python; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" {" ".join(ISOLATED)} -c "$1"
    code=$?
    case $code in 0 | 1) exit $code ;; esac
done
printf 'no python' >&2
exit {NO_PYTHON}
"""


@cache
def packed_agent() -> bytes:
    """The whole program for the other end, as it travels."""
    text = joined("jupyter_hpc.connect.files", _MODULES, "The far end of a transfer.")
    packed = zlib.compress(text.encode("utf-8"), 9)
    return b"%d\n" % len(packed) + packed


def agent_argv() -> list[str]:
    """The command that reads packed_agent() from stdin and becomes it."""
    return ["sh", "-c", _START, "jupyter-hpc", PROGRAM]
