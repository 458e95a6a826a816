"""`jupyter-hpc`, also as `python -m jupyter_hpc`: the first that Python loads of a command.

Ctrl-C while the rest is still being loaded ends it as quietly as later.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command of `sys.argv` and exit with its code."""
    try:
        from jupyter_hpc.cli.main import main as run

        run()
    except KeyboardInterrupt:
        # In the words of cli.main, which may not be there yet.
        sys.stderr.write("Stopped.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
