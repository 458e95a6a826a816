"""The very first module of a command: Ctrl-C while the others are still being loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Ends the loading of one module as Ctrl-C does, in `jupyter-hpc connect --help`.
_INTERRUPTED = """
import os, signal, sys

interrupted, sys.argv[1:] = sys.argv[1], ["connect", "--help"]

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == interrupted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" has it ignored
sys.meta_path.insert(0, Interrupts())
from jupyter_hpc.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["jupyter_hpc.cli.main", "click", "jupyter_hpc.cli.connect"])
def test_ctrl_c_while_python_loads_ends_it_quietly(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, module], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "Stopped."
