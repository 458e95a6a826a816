"""Lists all runs, or gives what a report shows of one submit; see the two modules before."""

from __future__ import annotations

import sys

from jupyter_hpc.batch.runtime.runs.collect import print_runs
from jupyter_hpc.batch.runtime.runs.contents import print_contents

if __name__ == "__main__":
    if sys.argv[1] == "list":
        print_runs(*sys.argv[2:4])
    else:
        print_contents(*sys.argv[2:6])
