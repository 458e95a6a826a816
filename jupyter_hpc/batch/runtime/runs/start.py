"""Lists all runs, gives what a report shows of one submit, or deletes; see the modules before."""

from __future__ import annotations

import sys

from jupyter_hpc.batch.runtime.runs.collect import print_runs
from jupyter_hpc.batch.runtime.runs.contents import print_contents
from jupyter_hpc.batch.runtime.runs.removal import print_holdings, print_removed

if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    if verb == "list":
        print_runs(*words)
    elif verb == "holds":
        print_holdings(*words)
    elif verb == "remove":
        print_removed(*words)
    else:
        print_contents(*words)
